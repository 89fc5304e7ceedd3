/* The tracer bench's program for libblkkin: see harness.c for its arguments. The active session
 * determines whether and how events are recorded. */
#include "harness.h"

#include <blkkin.h>

#include <stddef.h>

/* Active spans of a program, one for each annotation. */
static struct blkin_endpoint endpoints[ANNOTATIONS];
static struct blkin_trace traces[ANNOTATIONS];

void prepare(void)
{
	for (long i = 0; i < ANNOTATIONS; i++) {
		const struct annotation *a = annotation_of(i);
		struct blkin_trace_info info = { i + 1, i + 2, i + 1 };

		blkin_init_endpoint(&endpoints[i], a->ip, a->port, a->service);
		blkin_set_trace_properties(&traces[i], &info, a->trace_name, &endpoints[i]);
	}
}

static inline const struct blkin_trace *trace_of(long i)
{
	return HIDDEN(&traces[i & (ANNOTATIONS - 1)]);
}

static void annotation(const struct work *work)
{
	OPERATIONS(work, i) {
		const struct annotation *a = annotation_of(i);

		blkkin_keyval_string(trace_of(i), NULL, BLKKIN_WARNING, a->key, a->val);
	}
}

static void loop_of_traces(const struct work *work)
{
	OPERATIONS(work, i) {
		const struct annotation *a = annotation_of(i);

		USE(trace_of(i));
		USE(a->key);
		USE(a->val);
	}
}

static void annotate(const struct blkin_trace *trace, const struct annotation *a)
{
	struct blkin_annotation annotation;

	blkin_init_string_annotation(&annotation, a->key, a->val, NULL);
	blkin_record(trace, &annotation);
}

static void blkin_annotation(const struct work *work)
{
	OPERATIONS(work, i) {
		const struct annotation *a = annotation_of(i);
		struct ids ids = ids_of(work, i);
		struct blkin_endpoint endpoint = { a->ip, a->port, a->service };
		struct blkin_trace trace = {
			a->trace_name, { ids.trace, ids.span, ids.parent_span }, { &endpoint }
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
		struct blkin_endpoint endpoint = { a->ip, a->port, a->service };
		struct blkin_trace parent = {
			a->trace_name, { ids.trace, ids.span, ids.parent_span }, { &endpoint }
		};
		struct blkin_trace child;

		blkin_init_child(&child, &parent, NULL, a->trace_name);
		annotate(&child, a);
		annotate(&child, a);
	}
}

const struct kind kinds[] = {
	{ "annotation", annotation, loop_of_traces, 1 },
	{ "blkin-annotation", blkin_annotation, loop_of_annotations, 1 },
	{ "blkin-span", blkin_span, loop_of_annotations, 2 },
	FLOORS,
	{ NULL, NULL, NULL, 0 },
};
