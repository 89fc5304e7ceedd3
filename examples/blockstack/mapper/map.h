/* The map from object names to their numbers in the stores: an append-only file with a record for each
 * object, and a table of its contents. */
#ifndef BLOCKSTACK_MAP_H
#define BLOCKSTACK_MAP_H

#include "link.h"

/* Reads the file, or creates it. Truncates it at the first invalid record. Returns -1 with errno on
 * errors. */
int map_open(const char *path);

/* Returns the number of an object; 0 if it has none. */
uint64_t map_find(const char *name, size_t name_size);

/* Assigns a number to an object, durably; returns 0 with errno on errors. */
uint64_t map_add(const char *name, size_t name_size);

#endif
