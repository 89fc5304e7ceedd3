/* Records events at a fixed rate: `paced time RATE SECONDS 1`, with the rate in events per second. It is
 * the counterpart of `blkkin-bench-paced` for LTTng-UST, with the same arguments and output. */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const long SECOND = 1000 * 1000 * 1000;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

int main(int argc, char **argv)
{
	long rate = argc > 2 ? atol(argv[2]) : 0;
	long seconds = argc > 3 ? atol(argv[3]) : 0;
	long start = now_ns();

	if (rate < 1 || seconds < 1) {
		fprintf(stderr, "usage: paced time RATE SECONDS 1\n");
		return 2;
	}
	for (long i = 1; i <= rate * seconds; i++) {
		long due = start + i * SECOND / rate;
		struct timespec until = { due / SECOND, due % SECOND };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		lttng_ust_tracepoint(bench, time, now_ns());
	}
	printf("{\"events_tried\": %ld, \"seconds\": %.3f}\n", rate * seconds,
	       (double)(now_ns() - start) / SECOND);
	return 0;
}
