/* Runs a loop of a program in threads, and prints the cost of an operation as one line of JSON:
 * `PROGRAM KIND OPERATIONS THREADS WARM_UP`. OPERATIONS is the total number. The main thread makes
 * WARM_UP operations on each processor before, so that no page of the buffers is touched for the
 * first time during the measurement. Start at main(). */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

/* Number of operations of the empty loop, which takes some milliseconds. */
static const long LOOP_OPERATIONS = 4 * 1000 * 1000;

/* Number of portions of a warm-up. Pauses in between let readers empty the buffers. */
enum { PORTIONS = 8 };
static const useconds_t PAUSE_US = 5 * 1000;

/* Number of operations of a thread before the measurement: they touch its stack and the tracer's memory
 * for the first time, which is no cost of an event. */
enum { FIRST_OPERATIONS = 64 };

struct thread {
	pthread_t id;
	struct work work;
	const struct kind *kind;
	double wall_ns, cpu_ns;
};

struct annotation *argument_strings;
static pthread_barrier_t barrier;

static double now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void run_on(long processor)
{
	cpu_set_t set;

	/* If this fails, threads move between processors, which only adds noise. */
	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *run(void *argument)
{
	struct thread *thread = argument;
	double wall, cpu;

	struct work first = { thread->work.thread, -FIRST_OPERATIONS, FIRST_OPERATIONS };

	run_on(thread->work.thread % sysconf(_SC_NPROCESSORS_ONLN));
	thread->kind->record(&first);
	pthread_barrier_wait(&barrier);
	wall = now_ns(CLOCK_MONOTONIC);
	cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
	thread->kind->record(&thread->work);
	thread->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	thread->wall_ns = now_ns(CLOCK_MONOTONIC) - wall;
	return NULL;
}

static void warm_up(const struct kind *kind, long count)
{
	for (long i = 0; i < sysconf(_SC_NPROCESSORS_ONLN); i++) {
		run_on(i);
		for (long start = -count; start < 0; start += count / PORTIONS) {
			struct work work = { THREADS_MAX, start, count / PORTIONS };

			kind->record(&work);
			usleep(PAUSE_US);
		}
	}
}

static double loop_ns(const struct kind *kind)
{
	struct work work = { 0, 0, LOOP_OPERATIONS };
	double start = now_ns(CLOCK_THREAD_CPUTIME_ID);

	kind->loop(&work);
	return (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / LOOP_OPERATIONS;
}

static int measure(const struct kind *kind, long operations, long threads, long warm_ups)
{
	static struct thread all[THREADS_MAX];
	double wall_ns = 0, cpu_ns = 0, loop = loop_ns(kind);

	pthread_barrier_init(&barrier, NULL, threads);
	warm_up(kind, warm_ups);
	for (long i = 0; i < threads; i++) {
		all[i].work = (struct work){ i, 0, operations / threads };
		all[i].kind = kind;
		if (pthread_create(&all[i].id, NULL, run, &all[i])) {
			fprintf(stderr, "cannot start a thread\n");
			return 1;
		}
	}
	for (long i = 0; i < threads; i++) {
		pthread_join(all[i].id, NULL);
		wall_ns += all[i].wall_ns;
		cpu_ns += all[i].cpu_ns;
	}
	/* Mean wall time of a thread for an operation; all threads have equal shares. */
	printf("{\"kind\": \"%s\", \"threads\": %ld, \"operations\": %ld, \"events_tried\": %ld, "
	       "\"wall_ns\": %.3f, \"cpu_ns\": %.3f, \"loop_ns\": %.3f}\n",
	       kind->name, threads, operations,
	       kind->events * (operations + threads * FIRST_OPERATIONS +
			       warm_ups * sysconf(_SC_NPROCESSORS_ONLN)),
	       wall_ns / operations, cpu_ns / operations, loop);
	return 0;
}

/* Moves the strings to memory that is opaque to the compiler. */
static void hide_strings(void)
{
	argument_strings = HIDDEN((struct annotation *)malloc(sizeof(annotations)));
	for (int i = 0; i < ANNOTATIONS; i++) {
		const struct annotation *a = &annotations[i];

		argument_strings[i] = (struct annotation){ strdup(a->trace_name),
			strdup(a->service), strdup(a->ip), strdup(a->key), strdup(a->val), a->port };
	}
}

static long number(int argc, char **argv, int index)
{
	return index < argc ? atol(argv[index]) : -1;
}

int main(int argc, char **argv)
{
	const struct kind *kind = kinds;
	long operations = number(argc, argv, 2);
	long threads = number(argc, argv, 3);
	long warm_ups = number(argc, argv, 4);

	while (kind->name && argc > 1 && strcmp(kind->name, argv[1]))
		kind++;
	if (!kind->name || threads < 1 || threads > THREADS_MAX || operations < threads ||
	    operations % threads || warm_ups < 0 || warm_ups % PORTIONS) {
		fprintf(stderr, "usage: KIND OPERATIONS THREADS WARM_UP\n"
			"operations are divided evenly among threads, warm-ups by %d; kinds:",
			PORTIONS);
		for (kind = kinds; kind->name; kind++)
			fprintf(stderr, " %s", kind->name);
		fprintf(stderr, "\n");
		return 2;
	}
	hide_strings();
	prepare();
	return measure(kind, operations, threads, warm_ups);
}

void loop_of_numbers(const struct work *work)
{
	OPERATIONS(work, i)
		USE(i);
}

void loop_of_annotations(const struct work *work)
{
	OPERATIONS(work, i) {
		const struct annotation *a = annotation_of(i);
		struct ids ids = ids_of(work, i);

		USE(a->trace_name);
		USE(a->service);
		USE(a->port);
		USE(a->ip);
		USE(ids.trace);
		USE(ids.span);
		USE(ids.parent_span);
		USE(a->key);
		USE(a->val);
	}
}

static inline unsigned long ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000UL + now.tv_nsec;
#endif
}

void floor_time(const struct work *work)
{
	OPERATIONS(work, i)
		USE(ticks());
}

/* Size of a sub-buffer in bytes, with default options of LTTng and BlkKin. */
enum { FLOOR_BUFFER_SIZE = 512 << 10 };

/* Inlined, so that the size is a constant, as in an encoder of a fixed layout. */
static inline __attribute__((always_inline)) void floor_bytes(const struct work *work, size_t size)
{
	char *buffer = HIDDEN((char *)malloc(FLOOR_BUFFER_SIZE));
	const char *event = HIDDEN((const char *)calloc(1, size));
	size_t position = 0;

	memset(buffer, 1, FLOOR_BUFFER_SIZE);
	OPERATIONS(work, i) {
		unsigned long time = ticks();

		if (position + size > FLOOR_BUFFER_SIZE)
			position = 0;
		memcpy(buffer + position, &time, sizeof(time));
		memcpy(buffer + position + sizeof(time), event, size - sizeof(time));
		position += size;
		USE(buffer);
	}
	free(buffer);
	free((char *)event);
}

void floor_16_bytes(const struct work *work)
{
	floor_bytes(work, 16);
}

void floor_75_bytes(const struct work *work)
{
	floor_bytes(work, 75);
}
