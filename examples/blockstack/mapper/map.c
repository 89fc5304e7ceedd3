/* The map of objects, as declared in map.h. A record is written and synced before its number is used, so
 * anything after the last valid record was never used. */
#define _GNU_SOURCE
#include "map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Record on disk: magic, checksum of the rest, number, bitmap of stores, size of the name, name.
 * Numbers have the machine's byte order, as the file stays on one machine. */
struct record {
	uint32_t magic;
	uint32_t sum;
	uint64_t number;
	uint32_t stores;
	uint32_t name_size;
	char name[NAME_MAX_SIZE];
};

enum { RECORD_MAGIC = 0x50414d42, BOTH_STORES = 3 };

static struct {
	int fd;
	off_t size;
	uint64_t last;
	/* Hash table by name, at most half full. A free slot has number 0. */
	struct record *places;
	size_t room;
	size_t count;
} map = { .fd = -1 };

static uint64_t hash(const char *bytes, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t at = 0; at < size; at++)
		hash = (hash ^ (unsigned char)bytes[at]) * 0x100000001b3;
	return hash ^ hash >> 29;
}

static uint32_t sum_of(const struct record *record)
{
	size_t skipped = offsetof(struct record, number);

	return (uint32_t)hash((const char *)record + skipped, sizeof(*record) - skipped);
}

static struct record *place_of(const char *name, size_t name_size)
{
	size_t at = hash(name, name_size) & (map.room - 1);

	while (map.places[at].number != 0 && (map.places[at].name_size != name_size ||
					      memcmp(map.places[at].name, name, name_size) != 0))
		at = (at + 1) & (map.room - 1);
	return &map.places[at];
}

static int grow(void)
{
	struct record *old = map.places;
	size_t old_room = map.room;
	struct record *places = calloc(old_room == 0 ? 1024 : 2 * old_room, sizeof(*places));

	if (places == NULL)
		return -1;
	map.places = places;
	map.room = old_room == 0 ? 1024 : 2 * old_room;
	for (size_t at = 0; at < old_room; at++)
		if (old[at].number != 0)
			*place_of(old[at].name, old[at].name_size) = old[at];
	free(old);
	return 0;
}

static int keep(const struct record *record)
{
	if (2 * (map.count + 1) > map.room && grow() < 0)
		return -1;
	*place_of(record->name, record->name_size) = *record;
	map.count++;
	if (record->number > map.last)
		map.last = record->number;
	return 0;
}

int map_open(const char *path)
{
	struct record record;

	map.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (map.fd < 0 || grow() < 0)
		return -1;
	while (pread(map.fd, &record, sizeof(record), map.size) == sizeof(record) &&
	       record.magic == RECORD_MAGIC && record.sum == sum_of(&record) &&
	       record.number != 0 && record.name_size <= NAME_MAX_SIZE) {
		if (keep(&record) < 0)
			return -1;
		map.size += sizeof(record);
	}
	return ftruncate(map.fd, map.size);
}

uint64_t map_find(const char *name, size_t name_size)
{
	return place_of(name, name_size)->number;
}

uint64_t map_add(const char *name, size_t name_size)
{
	struct record record = { .magic = RECORD_MAGIC,
				 .number = map.last + 1,
				 .stores = BOTH_STORES,
				 .name_size = (uint32_t)name_size };

	memcpy(record.name, name, name_size);
	record.sum = sum_of(&record);
	errno = ENOSPC; /* a short write does not set errno */
	if (pwrite(map.fd, &record, sizeof(record), map.size) != sizeof(record) ||
	    fdatasync(map.fd) < 0 || keep(&record) < 0)
		return 0;
	map.size += sizeof(record);
	return record.number;
}
