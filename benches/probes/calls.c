/* Makes system calls of one kind in threads, and prints the cost of an operation as one line of JSON:
 * `calls CALL COUNT [THREADS]`. COUNT is the number of operations of each thread. CALL is `read` (one
 * byte of /dev/zero), `pwrite` (4 KiB to a file in memory), `lseek`, or `open` (opens and closes
 * /dev/null). The program must be linked statically: then its start makes none of these calls, and the
 * recorded calls can be compared with COUNT. Start at main(). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
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

static const struct call calls[] = {
	{ "read", open_zero, make_read },
	{ "pwrite", open_in_memory, make_pwrite },
	{ "lseek", open_zero, make_lseek },
	{ "open", open_nothing, make_open },
};

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
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

	for (size_t i = 0; count > 1 && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, arguments[1]))
			call = &calls[i];
	if (!call || operations < BLOCKS || running < 1 || running > THREADS_MAX) {
		fprintf(stderr, "usage: calls read|pwrite|lseek|open COUNT [THREADS]\n");
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
