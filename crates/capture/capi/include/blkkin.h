/* BlkKin in C: follow one request through every layer that it crosses.
 *
 * A *trace* (struct blkin_trace) is one step of one request: a name, three ids, and the endpoint
 * where it happens. Annotations say what happened in it. A program that gets a request makes a
 * trace, annotates it, and makes children of it for what it asks of others; the children's ids
 * travel with the messages.
 *
 *     #include <blkkin.h>
 *
 *     static struct blkin_endpoint osd;
 *
 *     int main(void)
 *     {
 *         struct blkin_trace request, write;
 *
 *         blkin_init();
 *         blkin_init_endpoint(&osd, "10.0.0.7", 6802, "osd.3");
 *
 *         blkin_init_new_trace(&request, "client io", &osd);
 *         BLKKIN_EVENT(&request, &osd, BLKKIN_INFO, "received");
 *
 *         blkin_init_child(&write, &request, NULL, "write");
 *         BLKKIN_KEYVAL_INTEGER(&write, NULL, BLKKIN_DEBUG, "bytes", 4096);
 *         BLKKIN_EVENT(&write, NULL, BLKKIN_INFO, "Span ended");
 *         return 0;
 *     }
 *
 *     cc request.c -lblkkin
 *
 * Pointers. The caller owns every structure and every string, always: nothing is allocated, copied
 * or freed here. What a structure points to (names, addresses, endpoints) has to live as long as
 * the structure is used. A call keeps no pointer beyond its end.
 *
 * Return values. 0, or -EINVAL for an argument that is NULL and must not be; then nothing has been
 * written to. (The listings of the thesis say 1 and -1, but no implementation ever did that;
 * `< 0` has always been the test for an error.)
 *
 * Threads. All functions can be called from several threads at once, as long as they do not write
 * to a structure that another one uses.
 *
 * Two generations of names. Names that begin with blkin_ or BLKIN_ are those of the blkin library;
 * programs that were written for it compile with this header, too. Each of its functions also goes
 * by the name with an underscore in front. Names with blkkin_ or BLKKIN_ are BlkKin's own. */
#ifndef BLKKIN_H
#define BLKKIN_H

#include <linux/types.h> /* __be64 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define BLKKIN_INLINE inline __attribute__((__always_inline__))
#else
#define BLKKIN_INLINE static __inline__ __attribute__((__always_inline__, __unused__))
#endif

/* ---- What the structures are ---------------------------------------------------------------- */

/* Where something happens: a service, and the address that it is found at.
 *
 * The port is an int, as in the thesis. The later blkin library narrowed it to 16 bits with a sign,
 * where port 50000 became -15536; offsets of the other fields are the same with both. */
struct blkin_endpoint {
	const char *ip;
	int port;
	const char *name;
};

/* What has to travel with a request for its trace to go on elsewhere. A root has no parent: 0. */
struct blkin_trace_info {
	int64_t trace_id;
	int64_t span_id;
	int64_t parent_span_id;
};

/* The same in 24 bytes for the wire: big-endian, and in this order. */
struct blkin_trace_info_packed {
	__be64 trace_id;
	__be64 span_id;
	__be64 parent_span_id;
} __attribute__((__packed__));

/* Fields that the generations of the API named differently have both names. */
struct blkin_trace {
	const char *name;
	struct blkin_trace_info info;
	__extension__ union {
		const struct blkin_endpoint *endpoint;
		const struct blkin_endpoint *trace_endpoint;
	};
};

/* The values are the later library's; the thesis had no integers, and ANNOT_TIMESTAMP was 1. Known
 * programs use the names only. */
typedef enum {
	ANNOT_STRING = 0,
	ANNOT_INTEGER = 1,
	ANNOT_TIMESTAMP = 2
} blkin_annotation_type;

/* Something to say about a trace. A timestamp has its event in val_str, and no key. */
struct blkin_annotation {
	blkin_annotation_type type;
	const char *key;
	__extension__ union {
		const char *val_str;
		const char *val;
		int64_t val_int;
	};
	__extension__ union {
		const struct blkin_endpoint *endpoint;
		const struct blkin_endpoint *annotation_endpoint;
	};
};

/* The thesis spells the first structure with two k's. These are macros, not types of their own, so
 * that a `struct blkin_trace_info;` that was declared elsewhere is this one. */
#define blkkin_endpoint blkin_endpoint
#define blkkin_trace_info blkin_trace_info
#define blkkin_trace_info_packed blkin_trace_info_packed
#define blkkin_trace blkin_trace
#define blkkin_annotation blkin_annotation
#define blkkin_annotation_type blkin_annotation_type

/* Zipkin's core annotations: what to say when a message leaves ("cs", "ss") and arrives ("sr",
 * "cr"), is on the wire ("ws", "wr"), and the same for a fragment of one ("csf" and so on). */
extern const char *const CLIENT_SEND;
extern const char *const CLIENT_RECV;
extern const char *const SERVER_SEND;
extern const char *const SERVER_RECV;
extern const char *const WIRE_SEND;
extern const char *const WIRE_RECV;
extern const char *const CLIENT_SEND_FRAGMENT;
extern const char *const CLIENT_RECV_FRAGMENT;
extern const char *const SERVER_SEND_FRAGMENT;
extern const char *const SERVER_RECV_FRAGMENT;

/* ---- The API of blkin ----------------------------------------------------------------------- */

/* Declares a function by its name with and without the underscore. */
#define BLKKIN_BOTH(type, name, arguments) \
	type name arguments;               \
	type _##name arguments

/* Prepares the library. To be called once, early; more often does no harm, and not at all does
 * none either. Looks for a daemon that was started after the program, at most once a second. Always 0.
 * The program's own rand() is not touched. */
BLKKIN_BOTH(int, blkin_init, (void));

/* Makes `endpoint`. Without `ip` it is "NaN"; without `name`, nothing can be recorded with it. */
BLKKIN_BOTH(int, blkin_init_endpoint,
	    (struct blkin_endpoint *endpoint, const char *ip, int port, const char *name));

/* Makes a root: new trace id, span id equal to it, no parent. `name` and `endpoint` may be NULL,
 * but nothing is recorded without a name, nor without any endpoint.
 *
 * Sampling (`blkkin sampling`, BLKKIN_SAMPLE) decides about roots. One that is not followed has a
 * trace id of 0 and a span id of -1, and so have all its children, also those in other processes
 * that its ids are sent to: nothing is recorded of any of them. See blkkin_followed. */
BLKKIN_BOTH(int, blkin_init_new_trace,
	    (struct blkin_trace *new_trace, const char *name,
	     const struct blkin_endpoint *endpoint));

/* Only the ids of a root. NULL is ignored. */
BLKKIN_BOTH(void, blkin_init_trace_info, (struct blkin_trace_info *trace_info));

/* Makes a child of `parent`: same trace id, new span id, the parent's span id as parent id.
 * Without `endpoint` it is the parent's; -EINVAL if that has none. `child_name` may be NULL. */
BLKKIN_BOTH(int, blkin_init_child,
	    (struct blkin_trace *child, const struct blkin_trace *parent,
	     const struct blkin_endpoint *endpoint, const char *child_name));

/* The same for a parent elsewhere, of which a message told. `endpoint` must be there. */
BLKKIN_BOTH(int, blkin_init_child_info,
	    (struct blkin_trace *child, const struct blkin_trace_info *info,
	     const struct blkin_endpoint *endpoint, const char *child_name));

/* Make annotations, to be recorded. `endpoint` may be NULL: then the trace's is used. */
BLKKIN_BOTH(int, blkin_init_string_annotation,
	    (struct blkin_annotation *annotation, const char *key, const char *val,
	     const struct blkin_endpoint *endpoint));
BLKKIN_BOTH(int, blkin_init_integer_annotation,
	    (struct blkin_annotation *annotation, const char *key, int64_t val,
	     const struct blkin_endpoint *endpoint));
BLKKIN_BOTH(int, blkin_init_timestamp_annotation,
	    (struct blkin_annotation *annotation, const char *event,
	     const struct blkin_endpoint *endpoint));

/* Records `annotation` of `trace`, now, at the level of a warning. -EINVAL if there is no name of
 * the trace, no endpoint with ip and name, or no key or value, whether tracing is on or not. */
BLKKIN_BOTH(int, blkin_record,
	    (const struct blkin_trace *trace, const struct blkin_annotation *annotation));

/* Copy ids out of a trace and into it; nothing may be NULL. */
BLKKIN_BOTH(int, blkin_get_trace_info,
	    (const struct blkin_trace *trace, struct blkin_trace_info *info));
BLKKIN_BOTH(int, blkin_set_trace_info,
	    (struct blkin_trace *trace, const struct blkin_trace_info *info));

/* Makes a trace with ids that are known already; nothing may be NULL. */
BLKKIN_BOTH(int, blkin_set_trace_properties,
	    (struct blkin_trace *trace, const struct blkin_trace_info *info, const char *name,
	     const struct blkin_endpoint *endpoint));

/* From and to the 24 bytes for the wire. */
BLKKIN_BOTH(int, blkin_pack_trace_info,
	    (const struct blkin_trace_info *info, struct blkin_trace_info_packed *pinfo));
BLKKIN_BOTH(int, blkin_unpack_trace_info,
	    (const struct blkin_trace_info_packed *pinfo, struct blkin_trace_info *info));

#undef BLKKIN_BOTH

/* ---- BlkKin's own: levels ------------------------------------------------------------------- */

/* How bad what an annotation tells of is: LTTng's levels. Smaller is worse. */
typedef enum {
	BLKKIN_EMERG = 0,
	BLKKIN_ALERT,
	BLKKIN_CRIT,
	BLKKIN_ERR,
	BLKKIN_WARNING,
	BLKKIN_NOTICE,
	BLKKIN_INFO,
	BLKKIN_DEBUG_SYSTEM,
	BLKKIN_DEBUG_PROGRAM,
	BLKKIN_DEBUG_PROCESS,
	BLKKIN_DEBUG_MODULE,
	BLKKIN_DEBUG_UNIT,
	BLKKIN_DEBUG_FUNCTION,
	BLKKIN_DEBUG_LINE,
	BLKKIN_DEBUG
} blkkin_level;

/* A bit for each level (1 << level) at which somebody listens. The library changes it at any time;
 * programs ask with the two functions below. */
extern const volatile int blkkin_enabled_levels;

/* Whether somebody listens, at any level or at this one: a load and a branch. Worth asking before
 * building what an annotation is to say. */
BLKKIN_INLINE int blkkin_enabled(void)
{
	return blkkin_enabled_levels != 0;
}

BLKKIN_INLINE int blkkin_enabled_at(blkkin_level level)
{
	return (unsigned)level < 15 && ((blkkin_enabled_levels >> level) & 1);
}

/* Whether the request of a trace is followed. Worth asking before much is done for its annotations;
 * the functions that record ask themselves. Yes, for NULL. */
BLKKIN_INLINE int blkkin_followed(const struct blkin_trace *trace)
{
	return trace == NULL || trace->info.trace_id != 0 || trace->info.span_id != -1;
}

/* Record an annotation at a level, in one step. `endpoint` may be NULL: then it is the trace's.
 * 0, or -EINVAL as blkin_record has it, and for a level that is none. */
int blkkin_event(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
		 blkkin_level level, const char *event);
int blkkin_keyval_string(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			 blkkin_level level, const char *key, const char *val);
int blkkin_keyval_integer(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			  blkkin_level level, const char *key, int64_t val);

/* What the library does with an annotation that nobody listens to, without calling it: look whether
 * everything is there. */
BLKKIN_INLINE int blkkin_passes_(const struct blkin_trace *trace,
				 const struct blkin_endpoint *endpoint, blkkin_level level)
{
	if ((unsigned)level >= 15 || ((blkkin_enabled_levels >> level) & 1) || trace == NULL)
		return 0;
	if (endpoint == NULL)
		endpoint = trace->endpoint;
	return trace->name != NULL && endpoint != NULL && endpoint->name != NULL &&
	       endpoint->ip != NULL;
}

BLKKIN_INLINE int blkkin_event_(const struct blkin_trace *trace,
				const struct blkin_endpoint *endpoint, blkkin_level level,
				const char *event)
{
	if (event != NULL && blkkin_passes_(trace, endpoint, level))
		return 0;
	return blkkin_event(trace, endpoint, level, event);
}

BLKKIN_INLINE int blkkin_keyval_string_(const struct blkin_trace *trace,
					const struct blkin_endpoint *endpoint, blkkin_level level,
					const char *key, const char *val)
{
	if (key != NULL && val != NULL && blkkin_passes_(trace, endpoint, level))
		return 0;
	return blkkin_keyval_string(trace, endpoint, level, key, val);
}

BLKKIN_INLINE int blkkin_keyval_integer_(const struct blkin_trace *trace,
					 const struct blkin_endpoint *endpoint, blkkin_level level,
					 const char *key, int64_t val)
{
	if (key != NULL && blkkin_passes_(trace, endpoint, level))
		return 0;
	return blkkin_keyval_integer(trace, endpoint, level, key, val);
}

/* So calls of the functions by their names cost next to nothing, too. Pointers to them, and names in
 * parentheses, are the library's. */
#define blkkin_event(trace, endpoint, level, event) blkkin_event_(trace, endpoint, level, event)
#define blkkin_keyval_string(trace, endpoint, level, key, val) \
	blkkin_keyval_string_(trace, endpoint, level, key, val)
#define blkkin_keyval_integer(trace, endpoint, level, key, val) \
	blkkin_keyval_integer_(trace, endpoint, level, key, val)

/* The same as expressions without a value. As long as nobody listens at the level, they cost a load
 * and a branch, and evaluate no argument but the level. */
#define BLKKIN_EVENT(trace, endpoint, level, event) \
	((void)(blkkin_enabled_at(level) && (blkkin_event)(trace, endpoint, level, event)))
#define BLKKIN_KEYVAL_STRING(trace, endpoint, level, key, val) \
	((void)(blkkin_enabled_at(level) &&                    \
		(blkkin_keyval_string)(trace, endpoint, level, key, val)))
#define BLKKIN_KEYVAL_INTEGER(trace, endpoint, level, key, val) \
	((void)(blkkin_enabled_at(level) &&                     \
		(blkkin_keyval_integer)(trace, endpoint, level, key, val)))

/* ---- The macros of blkin -------------------------------------------------------------------- */

/* Functions, so that each argument is evaluated once whether tracing is on or not: a program may
 * rely on what its arguments do. */
BLKKIN_INLINE void blkkin_timestamp_(const struct blkin_trace *trace,
				     const struct blkin_endpoint *endpoint, const char *event)
{
	BLKKIN_EVENT(trace, endpoint, BLKKIN_WARNING, event);
}

BLKKIN_INLINE void blkkin_string_(const struct blkin_trace *trace,
				  const struct blkin_endpoint *endpoint, const char *key,
				  const char *val)
{
	BLKKIN_KEYVAL_STRING(trace, endpoint, BLKKIN_WARNING, key, val);
}

BLKKIN_INLINE void blkkin_integer_(const struct blkin_trace *trace,
				   const struct blkin_endpoint *endpoint, const char *key,
				   int64_t val)
{
	BLKKIN_KEYVAL_INTEGER(trace, endpoint, BLKKIN_WARNING, key, val);
}

/* Statements with their semicolon, as they always were: programs have uses without one. So none can
 * stand between `if (…)` and `else` without braces; BlkKin's own macros can. */
/* clang-format off */
#define BLKIN_TIMESTAMP(trace, endp, event) \
	do { blkkin_timestamp_(trace, endp, event); } while (0);
#define BLKIN_KEYVAL_STRING(trace, endp, key, val) \
	do { blkkin_string_(trace, endp, key, val); } while (0);
#define BLKIN_KEYVAL_INTEGER(trace, endp, key, val) \
	do { blkkin_integer_(trace, endp, key, val); } while (0);
/* The first generation's name for strings. */
#define BLKIN_KEYVAL(trace, endp, key, val) BLKIN_KEYVAL_STRING(trace, endp, key, val)
/* clang-format on */

/* ---- BlkKin's own: contexts of events ------------------------------------------------------- */

/* Sets the value of the context `name`, which is PROVIDER:NAME, for this process: from now on it stands
 * with the events of all channels that ask for it. At most 255 bytes of a value count. 0, or -EINVAL:
 * the name is none, or there are more than 256. Not to be called in signal handlers. */
int blkkin_set_context(const char *name, const char *value);

/* ---- BlkKin's own: ids, and what travels in headers of text ----------------------------------- */

/* A new id of 64 bits, never 0: unique over a cluster, as far as chance can make it. */
int64_t blkkin_new_id(void);

/* A trace's ids together with what headers of HTTP-like protocols add to them. To go on with a
 * request that came with one:
 *
 *     struct blkkin_context context;
 *     char out[BLKKIN_TRACEPARENT_SIZE];
 *
 *     if (blkkin_traceparent_parse(header, strlen(header), &context) < 0)
 *         ... no context, or a broken one: blkkin_context_init(&context) begins a new request
 *     if (blkkin_sampled(&context))
 *         blkin_init_child_info(&trace, &context.info, &osd, "write");
 *     ...
 *     context.info = trace.info;
 *     blkkin_traceparent_format(&context, out, sizeof(out));
 */
struct blkkin_context {
	struct blkin_trace_info info;
	/* The upper half of a trace id of 128 bits, 0 for one of 64. */
	int64_t trace_id_high;
	/* BLKKIN_SAMPLED and the others, joined by |. */
	uint32_t flags;
};

/* The first two are W3C's bits, too. */
#define BLKKIN_SAMPLED 1u  /* the request is to be traced */
#define BLKKIN_RANDOM 2u   /* the trace id is random; W3C wants it passed on */
#define BLKKIN_DEBUG_TRACE 4u /* B3's debug: traced, whatever samplers say */
#define BLKKIN_DEFERRED 8u /* B3 without a decision: who gets it decides. Comes with BLKKIN_SAMPLED */

/* Room for the longest text, with its end. */
#define BLKKIN_TRACEPARENT_SIZE 56
#define BLKKIN_B3_SIZE 69

/* Annotations have room for 64 bits of a trace id. The upper half of a longer one is recorded beside
 * them, if somebody listens, when a sampled context with it is made or read here. */

/* The context of a new root, with a trace id of 128 bits. Sampling decides whether BLKKIN_SAMPLED is
 * among its flags. 0, or -EINVAL. */
int blkkin_context_init(struct blkkin_context *context);

/* Whether the request is to be traced. No, for NULL. */
BLKKIN_INLINE int blkkin_sampled(const struct blkkin_context *context)
{
	return context != NULL && (context->flags & BLKKIN_SAMPLED);
}

/* Read `length` bytes: the value of W3C's header traceparent, or of the header b3 (the single one).
 * Spaces and tabs around it are ignored. What neither has, a parent's id or flags, becomes 0. A b3
 * that is only a decision (`0`, `1` or `d`) gives ids of 0: begin a root, and heed the flags.
 * 0, or -EINVAL for NULL and for what the specification calls invalid: act as without a header. */
int blkkin_traceparent_parse(const char *text, size_t length, struct blkkin_context *context);
int blkkin_b3_parse(const char *text, size_t length, struct blkkin_context *context);

/* Write the header's value and a NUL into `size` bytes at `text`. The length without the NUL;
 * -EINVAL for NULL, or a trace or span id of 0 (b3 takes both as 0 with a decision); -ENOSPC where
 * it does not fit. On errors `text` is left as it was. */
int blkkin_traceparent_format(const struct blkkin_context *context, char *text, size_t size);
int blkkin_b3_format(const struct blkkin_context *context, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
