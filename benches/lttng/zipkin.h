/* The annotation event of the benches: one key and value of a span. Provider and field names are
 * those of existing instrumented programs. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER zipkin

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./zipkin.h"

#if !defined(BLKKIN_BENCH_ZIPKIN_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BLKKIN_BENCH_ZIPKIN_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	zipkin,
	keyval_string,
	LTTNG_UST_TP_ARGS(
		const char *, trace_name,
		const char *, service,
		int, port,
		const char *, ip,
		long, trace,
		long, span,
		long, parent_span,
		const char *, key,
		const char *, val
	),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(trace_name, trace_name)
		lttng_ust_field_string(service_name, service)
		lttng_ust_field_integer(int, port_no, port)
		lttng_ust_field_string(ip, ip)
		lttng_ust_field_integer(long, trace_id, trace)
		lttng_ust_field_integer(long, span_id, span)
		lttng_ust_field_integer(long, parent_span_id, parent_span)
		lttng_ust_field_string(key, key)
		lttng_ust_field_string(val, val)
	)
)

LTTNG_UST_TRACEPOINT_LOGLEVEL(zipkin, keyval_string, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

#endif

#include <lttng/tracepoint-event.h>
