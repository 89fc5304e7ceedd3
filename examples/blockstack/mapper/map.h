/* Which objects there are, and under which number the stores keep each: a file to which a record is added
 * for each object, and a table of what is in it. */
#ifndef BLOCKSTACK_MAP_H
#define BLOCKSTACK_MAP_H

#include "link.h"

/* Reads the file, and makes it if there is none. What is not whole at its end is cut off. -1 with errno. */
int map_open(const char *path);

/* The number of an object; 0 if it has none. */
uint64_t map_find(const char *name, size_t name_size);

/* Gives an object a number, which is on disk when this returns; 0 with errno. */
uint64_t map_add(const char *name, size_t name_size);

#endif
