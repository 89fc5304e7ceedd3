/* The part of blkin that program.c uses, implemented with LTTng's tracepoints as in blkin: it shows the
 * program's trace before BlkKin existed. Ids are counted, which makes no difference to LTTng. */
#define blkkin_enabled_levels levels_of_the_header
#include <blkkin.h>
#undef blkkin_enabled_levels

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "zipkin.h"

#include <errno.h>

volatile int blkkin_enabled_levels = 0x7fff;
static const volatile uint64_t no_call;
const volatile uint64_t *const blkkin_call_ = &no_call;

int blkkin_enabled_by_now(int levels)
{
	return levels != 0;
}

static int64_t id(void)
{
	static int64_t last;

	return ++last;
}

static const struct blkin_endpoint *place(const struct blkin_trace *trace,
					  const struct blkin_endpoint *endpoint)
{
	return endpoint ? endpoint : trace->endpoint;
}

int (blkkin_event)(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
		   blkkin_level level, const char *event)
{
	(void)level;
	lttng_ust_tracepoint(zipkin, timestamp, trace, place(trace, endpoint), event);
	return 0;
}

int (blkkin_keyval_string)(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			   blkkin_level level, const char *key, const char *val)
{
	(void)level;
	lttng_ust_tracepoint(zipkin, keyval_string, trace, place(trace, endpoint), key, val);
	return 0;
}

int (blkkin_keyval_integer)(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			    blkkin_level level, const char *key, int64_t val)
{
	(void)level;
	lttng_ust_tracepoint(zipkin, keyval_integer, trace, place(trace, endpoint), key, val);
	return 0;
}

int blkin_init(void)
{
	return 0;
}

int blkin_init_endpoint(struct blkin_endpoint *endpoint, const char *ip, int port, const char *name)
{
	endpoint->ip = ip ? ip : "NaN";
	endpoint->port = port;
	endpoint->name = name;
	return 0;
}

int blkin_init_new_trace(struct blkin_trace *new_trace, const char *name,
			 const struct blkin_endpoint *endpoint)
{
	new_trace->name = name;
	new_trace->endpoint = endpoint;
	new_trace->info.trace_id = new_trace->info.span_id = id();
	new_trace->info.parent_span_id = 0;
	return 0;
}

int blkin_init_child_info(struct blkin_trace *child, const struct blkin_trace_info *info,
			  const struct blkin_endpoint *endpoint, const char *child_name)
{
	child->name = child_name;
	child->endpoint = endpoint;
	child->info.trace_id = info->trace_id;
	child->info.span_id = id();
	child->info.parent_span_id = info->span_id;
	return 0;
}

int blkin_get_trace_info(const struct blkin_trace *trace, struct blkin_trace_info *info)
{
	*info = trace->info;
	return 0;
}

int blkin_init_string_annotation(struct blkin_annotation *annotation, const char *key,
				 const char *val, const struct blkin_endpoint *endpoint)
{
	annotation->type = ANNOT_STRING;
	annotation->key = key;
	annotation->val_str = val;
	annotation->endpoint = endpoint;
	return 0;
}

int blkin_init_integer_annotation(struct blkin_annotation *annotation, const char *key, int64_t val,
				  const struct blkin_endpoint *endpoint)
{
	annotation->type = ANNOT_INTEGER;
	annotation->key = key;
	annotation->val_int = val;
	annotation->endpoint = endpoint;
	return 0;
}

int blkin_init_timestamp_annotation(struct blkin_annotation *annotation, const char *event,
				    const struct blkin_endpoint *endpoint)
{
	annotation->type = ANNOT_TIMESTAMP;
	annotation->val_str = event;
	annotation->endpoint = endpoint;
	return 0;
}

int blkin_record(const struct blkin_trace *trace, const struct blkin_annotation *annotation)
{
	const struct blkin_endpoint *at = annotation->endpoint;

	switch (annotation->type) {
	case ANNOT_STRING:
		return (blkkin_keyval_string)(trace, at, BLKKIN_WARNING, annotation->key,
					      annotation->val_str);
	case ANNOT_INTEGER:
		return (blkkin_keyval_integer)(trace, at, BLKKIN_WARNING, annotation->key,
					       annotation->val_int);
	case ANNOT_TIMESTAMP:
		return (blkkin_event)(trace, at, BLKKIN_WARNING, annotation->val_str);
	}
	return -EINVAL;
}
