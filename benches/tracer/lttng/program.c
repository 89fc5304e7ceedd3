/* The tracer bench's program for LTTng-UST: see harness.c for its arguments. The active session
 * determines whether and how events are recorded. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench.h"
#include "zipkin.h"

#include "blkin.h"
#include "harness.h"

#include <stddef.h>

void prepare(void)
{
}

static void one(const struct work *work)
{
	OPERATIONS(work, i)
		lttng_ust_tracepoint(bench, one, (int)i);
}

/* The port is the operation's number, which identifies the event in a trace. */
static void annotation(const struct work *work)
{
	OPERATIONS(work, i) {
		const struct annotation *a = annotation_of(i);
		struct ids ids = ids_of(work, i);

		lttng_ust_tracepoint(zipkin, keyval_string, a->trace_name, a->service, (int)i,
				     a->ip, ids.trace, ids.span, ids.parent_span, a->key, a->val);
	}
}

static void annotate(const struct trace *trace, const struct annotation *a)
{
	struct string_annotation annotation;

	init_string_annotation(&annotation, a->key, a->val, NULL);
	record(trace, &annotation);
}

static void blkin_annotation(const struct work *work)
{
	OPERATIONS(work, i) {
		const struct annotation *a = annotation_of(i);
		struct ids ids = ids_of(work, i);
		struct endpoint endpoint = { a->ip, a->port, a->service };
		struct trace trace = {
			a->trace_name, { ids.trace, ids.span, ids.parent_span }, &endpoint
		};

		annotate(&trace, a);
	}
}

/* A child span with new ids and two annotations. */
static void blkin_span(const struct work *work)
{
	OPERATIONS(work, i) {
		const struct annotation *a = annotation_of(i);
		struct ids ids = ids_of(work, i);
		struct endpoint endpoint = { a->ip, a->port, a->service };
		struct trace parent = {
			a->trace_name, { ids.trace, ids.span, ids.parent_span }, &endpoint
		};
		struct trace child;

		init_child(&child, &parent, NULL, a->trace_name);
		annotate(&child, a);
		annotate(&child, a);
	}
}

const struct kind kinds[] = {
	{ "one", one, loop_of_numbers, 1 },
	{ "annotation", annotation, loop_of_annotations, 1 },
	{ "blkin-annotation", blkin_annotation, loop_of_annotations, 1 },
	{ "blkin-span", blkin_span, loop_of_annotations, 2 },
	FLOORS,
	{ NULL, NULL, NULL, 0 },
};
