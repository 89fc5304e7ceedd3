/* An event that contains the monotonic time just before it is recorded. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./bench.h"

#if !defined(BLKKIN_BENCH_LIVE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BLKKIN_BENCH_LIVE_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	bench,
	time,
	LTTNG_UST_TP_ARGS(long, ns),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(long, ns, ns))
)

#endif

#include <lttng/tracepoint-event.h>
