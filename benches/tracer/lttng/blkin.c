/* See blkin.h. A separate file prevents inlining. */
#include "blkin.h"
#include "zipkin.h"

#include <errno.h>
#include <stdlib.h>

static int64_t random_id(void)
{
	return ((int64_t)rand() << 32) + rand();
}

int init_child(struct trace *child, const struct trace *parent, const struct endpoint *endpoint,
	       const char *name)
{
	if (!parent)
		return -EINVAL;
	if (!endpoint)
		endpoint = parent->endpoint;
	if (!child || !endpoint)
		return -EINVAL;
	child->name = name;
	child->info.trace_id = parent->info.trace_id;
	child->info.span_id = random_id();
	child->info.parent_span_id = parent->info.span_id;
	child->endpoint = endpoint;
	return 0;
}

int init_string_annotation(struct string_annotation *annotation, const char *key, const char *val,
			   const struct endpoint *endpoint)
{
	if (!annotation || !key || !val)
		return -EINVAL;
	annotation->type = STRING;
	annotation->key = key;
	annotation->val = val;
	annotation->endpoint = endpoint;
	return 0;
}

int record(const struct trace *trace, const struct string_annotation *annotation)
{
	const struct endpoint *endpoint;

	if (!annotation || !trace || !trace->name)
		return -EINVAL;
	endpoint = annotation->endpoint ? annotation->endpoint : trace->endpoint;
	if (!endpoint || !endpoint->ip || !endpoint->name)
		return -EINVAL;
	if (annotation->type != STRING || !annotation->key || !annotation->val)
		return -EINVAL;
	lttng_ust_tracepoint(zipkin, keyval_string, trace->name, endpoint->name, endpoint->port,
			     endpoint->ip, trace->info.trace_id, trace->info.span_id,
			     trace->info.parent_span_id, annotation->key, annotation->val);
	return 0;
}
