/* Linked in front of the library, these functions print what programs record through macros and in
 * C++, one line for each annotation:
 *
 *     LEVEL TRACE/SPAN/PARENT name @ service ip:port, and the event or key=value
 *
 * with ids replaced by numbers in the order in which they come, so that the output is the same each
 * time. */
#define blkkin_enabled_levels levels_of_the_header
#include <blkkin.h>
#undef blkkin_enabled_levels

#include <stdio.h>

#include "listener.h"

volatile int blkkin_enabled_levels;

void listen_to(int levels)
{
	blkkin_enabled_levels = levels;
}

static int number(int64_t id)
{
	static int64_t seen[64];
	static int count;
	int i;

	if (id == 0)
		return 0;
	for (i = 0; i < count; i++)
		if (seen[i] == id)
			return i + 1;
	if (count < 64)
		seen[count++] = id;
	return count;
}

static void heard(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint, int level)
{
	const struct blkin_endpoint *at = endpoint ? endpoint : trace->endpoint;

	printf("%d %d/", level, number(trace->info.trace_id));
	printf("%d/", number(trace->info.span_id));
	printf("%d %s @ ", number(trace->info.parent_span_id), trace->name);
	if (at)
		printf("%s %s:%d, ", at->name, at->ip, at->port);
	else
		printf("nowhere, ");
}

int (blkkin_event)(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
		 blkkin_level level, const char *event)
{
	heard(trace, endpoint, level);
	printf("%s\n", event);
	return 0;
}

int (blkkin_keyval_string)(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			 blkkin_level level, const char *key, const char *val)
{
	heard(trace, endpoint, level);
	printf("%s=\"%s\"\n", key, val);
	return 0;
}

int (blkkin_keyval_integer)(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			  blkkin_level level, const char *key, int64_t val)
{
	heard(trace, endpoint, level);
	printf("%s=%ld\n", key, (long)val);
	return 0;
}
