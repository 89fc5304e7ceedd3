/* The work of the public blkin library for each annotation and child span, written from the facts in
 * docs/blkin.md (2.1, 2.2, 4): ids from rand(), an annotation that is filled in and then checked, one
 * tracepoint. It is not that library, and cheaper in one respect: these functions are in the program,
 * not behind a shared library's procedure linkage table. */
#ifndef BLKKIN_BENCH_BLKIN_H
#define BLKKIN_BENCH_BLKIN_H

#include <stdint.h>

struct endpoint {
	const char *ip;
	int16_t port;
	const char *name;
};

struct trace_info {
	int64_t trace_id, span_id, parent_span_id;
};

struct trace {
	const char *name;
	struct trace_info info;
	const struct endpoint *endpoint;
};

enum annotation_type { STRING };

struct string_annotation {
	enum annotation_type type;
	const char *key, *val;
	const struct endpoint *endpoint;
};

int init_child(struct trace *child, const struct trace *parent, const struct endpoint *endpoint,
	       const char *name);
int init_string_annotation(struct string_annotation *annotation, const char *key, const char *val,
			   const struct endpoint *endpoint);
int record(const struct trace *trace, const struct string_annotation *annotation);

#endif
