/* Makes operations of one kind in threads, and prints the cost of an operation as one line of JSON:
 * `calls CALL COUNT [THREADS]`. COUNT is the number of operations of each thread. CALL is `read` (one
 * byte of /dev/zero), `pwrite` (4 KiB to a file in memory), `lseek`, `open` (opens and closes
 * /dev/null), `hit` (calls the function bench_hit), `usdt` (reaches the USDT probe bench:hit), or
 * `switch` (wakes a thread of the same processor, which answers). `calls offsets` prints the offsets of
 * bench_hit and of the USDT probe in the file. The program must be linked statically: then its start
 * makes none of the system calls, and the recorded calls can be compared with COUNT. Start at main(). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

/* Number of blocks of a thread's operations. Each is timed, and the median is not changed by single
 * interruptions. */
enum { BLOCKS = 10 };

enum { WRITE_SIZE = 4096, FILE_BLOCKS = 256 };

struct call {
	const char *name;
	int (*open)(long thread);
	/* Returns a negative number on failure. */
	long (*make)(int file, long index);
};

struct thread {
	pthread_t id;
	long index, count;
	const struct call *call;
	double block_ns[BLOCKS], sum_ns;
};

static pthread_barrier_t barrier;

static int open_zero(long thread)
{
	(void)thread;
	return open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static int open_in_memory(long thread)
{
	char path[64];
	int file;

	snprintf(path, sizeof(path), "/dev/shm/blkkin-bench-calls-%d-%ld", (int)getpid(), thread);
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	unlink(path);
	return file;
}

static int open_nothing(long thread)
{
	(void)thread;
	return 0;
}

static long make_read(int file, long index)
{
	char byte;

	(void)index;
	return read(file, &byte, 1);
}

static long make_pwrite(int file, long index)
{
	static const char bytes[WRITE_SIZE];

	return pwrite(file, bytes, sizeof(bytes), index % FILE_BLOCKS * WRITE_SIZE);
}

static long make_lseek(int file, long index)
{
	return lseek(file, index, SEEK_SET);
}

static long make_open(int file, long index)
{
	int opened = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)file;
	(void)index;
	return opened < 0 ? opened : close(opened);
}

/* The function of a uprobe. */
__attribute__((noinline)) long bench_hit(long index)
{
	__asm__ volatile("" : "+r"(index));
	return index;
}

static long make_hit(int file, long index)
{
	(void)file;
	return bench_hit(index);
}

/* A USDT probe with one argument, described by a note of the linker's format. */
static long make_usdt(int file, long index)
{
	(void)file;
	__asm__ volatile("bench_usdt: nop\n"
			 ".pushsection .note.stapsdt, \"\", \"note\"\n"
			 ".balign 4\n"
			 ".4byte 2f - 1f, 4f - 3f, 3\n"
			 "1: .asciz \"stapsdt\"\n"
			 "2: .balign 4\n"
			 "3: .8byte bench_usdt, _.stapsdt.base, 0\n"
			 ".asciz \"bench\"\n"
			 ".asciz \"hit\"\n"
			 ".asciz \"-8@%0\"\n"
			 "4: .balign 4\n"
			 ".popsection\n"
			 ".ifndef _.stapsdt.base\n"
			 ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
			 ".weak _.stapsdt.base\n"
			 ".hidden _.stapsdt.base\n"
			 "_.stapsdt.base: .space 1\n"
			 ".size _.stapsdt.base, 1\n"
			 ".popsection\n"
			 ".endif\n"
			 :
			 : "r"(index));
	return index;
}

static int questions[2], answers[2];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void stay_on_processor(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void *answer(void *processor)
{
	char byte;

	stay_on_processor(*(int *)processor);
	while (read(questions[0], &byte, 1) == 1)
		if (write(answers[1], &byte, 1) != 1)
			break;
	return NULL;
}

static int open_switch(long thread)
{
	static int processor;
	pthread_t id;

	(void)thread;
	processor = sched_getcpu();
	stay_on_processor(processor);
	if (pipe(questions) || pipe(answers) || pthread_create(&id, NULL, answer, &processor))
		return -1;
	return 0;
}

static long make_switch(int file, long index)
{
	char byte = 0;

	(void)file;
	(void)index;
	if (write(questions[1], &byte, 1) != 1 || read(answers[0], &byte, 1) != 1)
		return -1;
	return 0;
}

static const struct call calls[] = {
	{ "read", open_zero, make_read },
	{ "pwrite", open_in_memory, make_pwrite },
	{ "lseek", open_zero, make_lseek },
	{ "open", open_nothing, make_open },
	{ "hit", open_nothing, make_hit },
	{ "usdt", open_nothing, make_usdt },
	{ "switch", open_switch, make_switch },
};

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void *run(void *argument)
{
	struct thread *thread = argument;
	int file = thread->call->open(thread->index);

	if (file < 0)
		fail("cannot open the file");
	pthread_barrier_wait(&barrier);
	for (long block = 0; block < BLOCKS; block++) {
		long begin = thread->count * block / BLOCKS;
		long end = thread->count * (block + 1) / BLOCKS;
		double start = now_ns(), took;

		for (long index = begin; index < end; index++)
			if (thread->call->make(file, index) < 0)
				fail(thread->call->name);
		took = now_ns() - start;
		thread->block_ns[block] = took / (end - begin);
		thread->sum_ns += took;
	}
	return NULL;
}

static int compare(const void *left, const void *right)
{
	double one = *(const double *)left, other = *(const double *)right;

	return (one > other) - (one < other);
}

static void report(const struct thread *threads, long count)
{
	static double blocks[THREADS_MAX * BLOCKS];
	double sum_ns = 0;

	for (long i = 0; i < count; i++) {
		memcpy(blocks + i * BLOCKS, threads[i].block_ns, sizeof(threads[i].block_ns));
		sum_ns += threads[i].sum_ns / threads[i].count;
	}
	qsort(blocks, count * BLOCKS, sizeof(blocks[0]), compare);
	printf("{\"median_ns\": %.2f, \"mean_ns\": %.2f}\n", blocks[count * BLOCKS / 2], sum_ns / count);
}

int main(int count, char **arguments)
{
	static struct thread threads[THREADS_MAX];
	long operations = count > 2 ? atol(arguments[2]) : 0;
	long running = count > 3 ? atol(arguments[3]) : 1;
	const struct call *call = NULL;

	if (count > 1 && !strcmp(arguments[1], "offsets")) {
		extern const char __executable_start[], bench_usdt[];

		printf("%td %td\n", (const char *)bench_hit - __executable_start,
		       bench_usdt - __executable_start);
		return 0;
	}
	for (size_t i = 0; count > 1 && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, arguments[1]))
			call = &calls[i];
	if (!call || operations < BLOCKS || running < 1 || running > THREADS_MAX) {
		fprintf(stderr, "usage: calls read|pwrite|lseek|open|hit|usdt|switch COUNT [THREADS]\n");
		return 2;
	}
	pthread_barrier_init(&barrier, NULL, running);
	for (long i = 0; i < running; i++) {
		threads[i] = (struct thread){ .index = i, .count = operations, .call = call };
		if (pthread_create(&threads[i].id, NULL, run, &threads[i]))
			fail("cannot start a thread");
	}
	for (long i = 0; i < running; i++)
		pthread_join(threads[i].id, NULL);
	report(threads, running);
	return 0;
}
