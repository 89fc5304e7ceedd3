/* What the programs of the tracer bench have in common: `harness.c` runs the loops, each program
 * brings a table of them, named for what they record. So tracers are measured by one clock, with
 * one set of arguments. */
#ifndef BLKKIN_BENCH_HARNESS_H
#define BLKKIN_BENCH_HARNESS_H

#include "annotations.h"

/* A thread's part. */
struct work {
	/* Of the thread, from 0. */
	long thread;
	/* The first operation's number. Those of warm-ups are below 0. */
	long start;
	/* How many operations. */
	long count;
};

struct kind {
	const char *name;
	/* Records one operation after the other. */
	void (*record)(const struct work *work);
	/* The same loop with the same arguments, but nothing is recorded. */
	void (*loop)(const struct work *work);
	/* How many events an operation is. */
	int events;
};

/* The program's table; ends with a kind without a name. */
extern const struct kind kinds[];

/* What the program does before all else, when there are argument strings. */
void prepare(void);

#define OPERATIONS(work, i) \
	for (long i = (work)->start, end = i + (work)->count; i < end; i++)

/* Makes the compiler believe that it knows nothing of what the pointer points to. */
#define HIDDEN(pointer)                                              \
	({                                                           \
		__typeof__(pointer) hidden = (pointer);              \
		__asm__ volatile("" : "+r"(hidden) : : "memory");    \
		hidden;                                              \
	})

/* Makes the compiler believe that the value is needed. */
#define USE(value) __asm__ volatile("" : : "r"(value) : "memory")

/* The annotations, in memory of which the compiler knows nothing. */
extern struct annotation *argument_strings;

struct ids {
	long trace, span, parent_span;
};

static inline const struct annotation *annotation_of(long i)
{
	return HIDDEN(&argument_strings[i & (ANNOTATIONS - 1)]);
}

/* Four annotations a span, four spans a request. */
static inline struct ids ids_of(const struct work *work, long i)
{
	long first = work->thread << 40;
	long span = first + i / 4 + 1;

	return (struct ids){ first + i / 16 + 1, span, i / 4 % 4 ? span - 1 : 0 };
}

/* Loops that record nothing, for `struct kind`. */
void loop_of_numbers(const struct work *work);
void loop_of_annotations(const struct work *work);

/* The least that recording can cost: the time, and so many bytes with the time among them. */
void floor_time(const struct work *work);
void floor_16_bytes(const struct work *work);
void floor_75_bytes(const struct work *work);

#define FLOORS                                             \
	{ "time", floor_time, loop_of_numbers, 0 },        \
	{ "16-bytes", floor_16_bytes, loop_of_numbers, 0 }, \
	{ "75-bytes", floor_75_bytes, loop_of_numbers, 0 }

#endif
