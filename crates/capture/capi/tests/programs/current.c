/* Enters nested spans on two threads, prints the threads and the ids, and waits for a line of input.
 * It then exits the inner spans, prints the same again, and waits for the end of the input. With
 * PLUGIN, it loads the library named by its argument while both threads run. */
#define _GNU_SOURCE
#include <blkkin.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef PLUGIN
static int (*span_enter)(struct blkkin_entered *, const struct blkin_trace *);
static int (*context_enter)(struct blkkin_entered *, const struct blkkin_context *);
static int (*span_exit)(const struct blkkin_entered *);

static void load(const char *library)
{
	void *plugin = dlopen(library, RTLD_NOW);

	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&span_enter = dlsym(plugin, "blkkin_span_enter");
	*(void **)&context_enter = dlsym(plugin, "blkkin_context_enter");
	*(void **)&span_exit = dlsym(plugin, "blkkin_span_exit");
}
#else
#define span_enter blkkin_span_enter
#define context_enter blkkin_context_enter
#define span_exit blkkin_span_exit

static void load(const char *library)
{
	(void)library;
}
#endif

static pthread_barrier_t barrier;

/* Waits for the other thread; one of the two reads a line. */
static void wait_for_step(void)
{
	int c;

	fflush(stdout);
	if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		do
			c = getchar();
		while (c != '\n' && c != EOF);
	pthread_barrier_wait(&barrier);
}

static void *run(void *number)
{
	const long id = (long)number;
	struct blkin_trace trace = {0};
	struct blkkin_context context = {{id, id + 1, 0}, id + 2, BLKKIN_SAMPLED};
	struct blkkin_entered outer, inner, unsampled;

	/* The library is loaded once both threads run. */
	wait_for_step();
	if (id == 10)
		load(getenv("PLUGIN_PATH"));
	pthread_barrier_wait(&barrier);
#ifdef PLUGIN
	/* An agent has to know the library before it can find spans. */
	wait_for_step();
#endif
	trace.info.trace_id = -id;
	trace.info.span_id = -id - 1;
	if (span_enter(&outer, &trace) != 0 || context_enter(&inner, &context) != 0)
		abort();
	printf("%ld %ld %ld %ld\n", (long)syscall(SYS_gettid), id + 2, id, id + 1);
	wait_for_step();
	if (span_exit(&inner) != 0)
		abort();
	printf("%ld 0 %ld %ld\n", (long)syscall(SYS_gettid), -id, -id - 1);
	wait_for_step();
	/* The ids of a request that is not sampled. */
	trace.info.trace_id = 0;
	trace.info.span_id = -1;
	if (span_enter(&unsampled, &trace) != 0)
		abort();
	printf("%ld 0 0 0\n", (long)syscall(SYS_gettid));
	wait_for_step();
	if (span_exit(&unsampled) != 0 || span_exit(&outer) != 0)
		abort();
	if (span_enter(NULL, &trace) >= 0 || span_exit(NULL) >= 0 || context_enter(NULL, NULL) >= 0)
		abort();
	printf("%ld 0 0 0\n", (long)syscall(SYS_gettid));
	wait_for_step();
	return NULL;
}

int main(void)
{
	pthread_t other;

	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&other, NULL, run, (void *)20L) != 0)
		return 1;
	run((void *)10L);
	pthread_join(other, NULL);
	return 0;
}
