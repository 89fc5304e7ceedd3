/* Common part of the tracer bench's programs: `harness.c` runs the loops, and each program provides a
 * table of them, named by what they record. So all tracers are measured by one clock, with the same
 * arguments. */
#ifndef BLKKIN_BENCH_HARNESS_H
#define BLKKIN_BENCH_HARNESS_H

#include "annotations.h"

/* A thread's share of the operations. */
struct work {
	/* Number of the thread, from 0. */
	long thread;
	/* Number of the first operation; those of warm-ups are negative. */
	long start;
	/* Number of operations. */
	long count;
};

struct kind {
	const char *name;
	/* Records the operations. */
	void (*record)(const struct work *work);
	/* The same loop with the same arguments, without recording. */
	void (*loop)(const struct work *work);
	/* Number of events in an operation. */
	int events;
};

/* The program's table; ends with a kind without a name. */
extern const struct kind kinds[];

/* Initialization of the program, called once the argument strings exist. */
void prepare(void);

#define OPERATIONS(work, i) \
	for (long i = (work)->start, end = i + (work)->count; i < end; i++)

/* Makes the memory behind a pointer opaque to the compiler. */
#define HIDDEN(pointer)                                              \
	({                                                           \
		__typeof__(pointer) hidden = (pointer);              \
		__asm__ volatile("" : "+r"(hidden) : : "memory");    \
		hidden;                                              \
	})

/* Makes the compiler compute the value. */
#define USE(value) __asm__ volatile("" : : "r"(value) : "memory")

/* The annotations, in memory that is opaque to the compiler. */
extern struct annotation *argument_strings;

struct ids {
	long trace, span, parent_span;
};

static inline const struct annotation *annotation_of(long i)
{
	return HIDDEN(&argument_strings[i & (ANNOTATIONS - 1)]);
}

/* Four annotations per span, four spans per request. */
static inline struct ids ids_of(const struct work *work, long i)
{
	long first = work->thread << 40;
	long span = first + i / 4 + 1;

	return (struct ids){ first + i / 16 + 1, span, i / 4 % 4 ? span - 1 : 0 };
}

/* Loops without recording, for `struct kind`. */
void loop_of_numbers(const struct work *work);
void loop_of_annotations(const struct work *work);

/* The minimal cost of recording: reading the clock, and storing bytes that include the time. */
void floor_time(const struct work *work);
void floor_16_bytes(const struct work *work);
void floor_75_bytes(const struct work *work);

#define FLOORS                                             \
	{ "time", floor_time, loop_of_numbers, 0 },        \
	{ "16-bytes", floor_16_bytes, loop_of_numbers, 0 }, \
	{ "75-bytes", floor_75_bytes, loop_of_numbers, 0 }

#endif
