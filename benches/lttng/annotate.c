/* Records annotations as fast as possible: `annotate THREADS EVENTS`, with the total number of events. */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "annotations.h"
#include "zipkin.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct work {
	pthread_t thread;
	long number, events;
};

static void *annotate(void *argument)
{
	const struct work *work = argument;
	cpu_set_t cpus;

	/* One processor for each thread, so that their streams are equally long. If this fails, only the
	 * lengths differ. */
	CPU_ZERO(&cpus);
	CPU_SET(work->number % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);

	for (long i = 0; i < work->events; i++) {
		const struct annotation *a = &annotations[i % ANNOTATIONS];
		/* Four annotations per span, four spans per request. */
		long trace = (work->number << 40) + i / 16 + 1;
		long span = (work->number << 40) + i / 4 + 1;

		lttng_ust_tracepoint(zipkin, keyval_string, a->trace_name, a->service, a->port,
				     a->ip, trace, span, i / 4 % 4 ? span - 1 : 0, a->key, a->val);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? atol(argv[1]) : 0;
	long events = argc > 2 ? atol(argv[2]) : 0;

	if (threads < 1 || threads > 64 || events < 0) {
		fprintf(stderr, "usage: annotate THREADS EVENTS\n");
		return 2;
	}
	struct work work[64];
	for (long i = 0; i < threads; i++) {
		work[i].number = i;
		work[i].events = events / threads + (i < events % threads);
		if (pthread_create(&work[i].thread, NULL, annotate, &work[i])) {
			fprintf(stderr, "cannot start a thread\n");
			return 1;
		}
	}
	for (long i = 0; i < threads; i++)
		pthread_join(work[i].thread, NULL);
	return 0;
}
