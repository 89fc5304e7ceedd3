/* The smallest event worth recording: one integer. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./bench.h"

#if !defined(BLKKIN_BENCH_BENCH_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BLKKIN_BENCH_BENCH_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	bench,
	one,
	LTTNG_UST_TP_ARGS(int, number),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, number, number))
)

#endif

#include <lttng/tracepoint-event.h>
