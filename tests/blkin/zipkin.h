/* The tracepoints of blkin: provider, names, fields and levels as documented in docs/blkin.md. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER zipkin

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./zipkin.h"

#if !defined(BLKKIN_ZIPKIN_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BLKKIN_ZIPKIN_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(zipkin, keyval_string,
	LTTNG_UST_TP_ARGS(const struct blkin_trace *, trace, const struct blkin_endpoint *, at,
			  const char *, key, const char *, val),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(trace_name, trace->name)
		lttng_ust_field_string(service_name, at->name)
		lttng_ust_field_integer(int, port_no, at->port)
		lttng_ust_field_string(ip, at->ip)
		lttng_ust_field_integer(long, trace_id, trace->info.trace_id)
		lttng_ust_field_integer(long, span_id, trace->info.span_id)
		lttng_ust_field_integer(long, parent_span_id, trace->info.parent_span_id)
		lttng_ust_field_string(key, key)
		lttng_ust_field_string(val, val)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(zipkin, keyval_string, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

LTTNG_UST_TRACEPOINT_EVENT(zipkin, keyval_integer,
	LTTNG_UST_TP_ARGS(const struct blkin_trace *, trace, const struct blkin_endpoint *, at,
			  const char *, key, int64_t, val),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(trace_name, trace->name)
		lttng_ust_field_string(service_name, at->name)
		lttng_ust_field_integer(int, port_no, at->port)
		lttng_ust_field_string(ip, at->ip)
		lttng_ust_field_integer(long, trace_id, trace->info.trace_id)
		lttng_ust_field_integer(long, span_id, trace->info.span_id)
		lttng_ust_field_integer(long, parent_span_id, trace->info.parent_span_id)
		lttng_ust_field_string(key, key)
		lttng_ust_field_integer(int64_t, val, val)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(zipkin, keyval_integer, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

LTTNG_UST_TRACEPOINT_EVENT(zipkin, timestamp,
	LTTNG_UST_TP_ARGS(const struct blkin_trace *, trace, const struct blkin_endpoint *, at,
			  const char *, event),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(trace_name, trace->name)
		lttng_ust_field_string(service_name, at->name)
		lttng_ust_field_integer(int, port_no, at->port)
		lttng_ust_field_string(ip, at->ip)
		lttng_ust_field_integer(long, trace_id, trace->info.trace_id)
		lttng_ust_field_integer(long, span_id, trace->info.span_id)
		lttng_ust_field_integer(long, parent_span_id, trace->info.parent_span_id)
		lttng_ust_field_string(event, event)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(zipkin, timestamp, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

#endif

#include <lttng/tracepoint-event.h>
