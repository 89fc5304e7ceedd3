/* BlkKin in C: follow one request through every layer that it crosses.
 *
 * A *trace* (struct blkin_trace) is one step of one request: a name, three ids, and the endpoint
 * where it happens. Annotations are its events and key-value pairs. A program that receives a request
 * begins a trace, annotates it, and begins a child for each call to another program; the child's ids
 * travel with the message.
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

/* ---- Structures ----------------------------------------------------------------------------- */

/* An endpoint: a service and its address.
 *
 * The port is an int, as in the thesis. The later blkin library narrowed it to a signed 16-bit
 * integer, where port 50000 became -15536; offsets of the other fields are the same with both. */
struct blkin_endpoint {
	const char *ip;
	int port;
	const char *name;
};

/* Ids that travel with a request, so that its trace continues in another process. The parent id of
 * a root is 0. */
struct blkin_trace_info {
	int64_t trace_id;
	int64_t span_id;
	int64_t parent_span_id;
};

/* The ids in 24 bytes for the wire: big-endian, and in this order. */
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

/* An annotation of a trace. A timestamp has its event in val_str, and no key. */
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
 * that an existing declaration `struct blkin_trace_info;` refers to this structure. */
#define blkkin_endpoint blkin_endpoint
#define blkkin_trace_info blkin_trace_info
#define blkkin_trace_info_packed blkin_trace_info_packed
#define blkkin_trace blkin_trace
#define blkkin_annotation blkin_annotation
#define blkkin_annotation_type blkin_annotation_type

/* Zipkin's core annotations: a message leaves ("cs", "ss"), arrives ("sr", "cr"), or is on the wire
 * ("ws", "wr"); the same for a fragment of a message ("csf" and so on). */
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

/* Prepares the library. Call it once, early; further calls are harmless, and the call is optional.
 * It looks for an agent, at most once a second; an agent that starts later is also found by the
 * next annotation. Returns 0. The state of the program's rand() is not changed. */
BLKKIN_BOTH(int, blkin_init, (void));

/* Initializes `endpoint`. A NULL `ip` becomes "NaN"; an endpoint without `name` records nothing. */
BLKKIN_BOTH(int, blkin_init_endpoint,
	    (struct blkin_endpoint *endpoint, const char *ip, int port, const char *name));

/* Begins a root: new trace id, span id equal to it, no parent. `name` and `endpoint` may be NULL,
 * but nothing is recorded without a name, nor without any endpoint.
 *
 * Sampling (`blkkin sampling`, BLKKIN_SAMPLE) decides about roots. An unsampled root has trace id 0
 * and span id -1. So have all its children, in other processes, too; nothing is recorded of any of
 * them. See blkkin_followed. */
BLKKIN_BOTH(int, blkin_init_new_trace,
	    (struct blkin_trace *new_trace, const char *name,
	     const struct blkin_endpoint *endpoint));

/* Creates only the ids of a root. NULL is ignored. */
BLKKIN_BOTH(void, blkin_init_trace_info, (struct blkin_trace_info *trace_info));

/* Begins a child of `parent`: same trace id, new span id, the parent's span id as parent id. A NULL
 * `endpoint` means the parent's; -EINVAL if the parent has none. `child_name` may be NULL. */
BLKKIN_BOTH(int, blkin_init_child,
	    (struct blkin_trace *child, const struct blkin_trace *parent,
	     const struct blkin_endpoint *endpoint, const char *child_name));

/* Begins a child of a parent in another process, whose ids came with a message. `endpoint` must not
 * be NULL. */
BLKKIN_BOTH(int, blkin_init_child_info,
	    (struct blkin_trace *child, const struct blkin_trace_info *info,
	     const struct blkin_endpoint *endpoint, const char *child_name));

/* Initialize annotations for blkin_record. A NULL `endpoint` means the endpoint of the trace. */
BLKKIN_BOTH(int, blkin_init_string_annotation,
	    (struct blkin_annotation *annotation, const char *key, const char *val,
	     const struct blkin_endpoint *endpoint));
BLKKIN_BOTH(int, blkin_init_integer_annotation,
	    (struct blkin_annotation *annotation, const char *key, int64_t val,
	     const struct blkin_endpoint *endpoint));
BLKKIN_BOTH(int, blkin_init_timestamp_annotation,
	    (struct blkin_annotation *annotation, const char *event,
	     const struct blkin_endpoint *endpoint));

/* Records `annotation` of `trace` with the current time and level BLKKIN_WARNING. Returns -EINVAL
 * if the trace has no name, the endpoint is missing or has no ip or name, or the annotation has no
 * key or value, whether tracing is on or not. */
BLKKIN_BOTH(int, blkin_record,
	    (const struct blkin_trace *trace, const struct blkin_annotation *annotation));

/* Copy ids from a trace, and to it; no argument may be NULL. */
BLKKIN_BOTH(int, blkin_get_trace_info,
	    (const struct blkin_trace *trace, struct blkin_trace_info *info));
BLKKIN_BOTH(int, blkin_set_trace_info,
	    (struct blkin_trace *trace, const struct blkin_trace_info *info));

/* Initializes a trace with given ids; no argument may be NULL. */
BLKKIN_BOTH(int, blkin_set_trace_properties,
	    (struct blkin_trace *trace, const struct blkin_trace_info *info, const char *name,
	     const struct blkin_endpoint *endpoint));

/* Encode ids into 24 bytes for the wire, and decode them. */
BLKKIN_BOTH(int, blkin_pack_trace_info,
	    (const struct blkin_trace_info *info, struct blkin_trace_info_packed *pinfo));
BLKKIN_BOTH(int, blkin_unpack_trace_info,
	    (const struct blkin_trace_info_packed *pinfo, struct blkin_trace_info *info));

#undef BLKKIN_BOTH

/* ---- BlkKin's own: levels ------------------------------------------------------------------- */

/* Severity of an annotation: LTTng's levels. Smaller is more severe. */
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

/* A bit for each recorded level (1 << level). Negative while that is undecided: there has been no
 * agent yet, or, with BLKKIN_ASK_, this process was forked and has recorded nothing. The library
 * changes it at any time; programs use blkkin_enabled and blkkin_enabled_at. */
extern const volatile int blkkin_enabled_levels;
#define BLKKIN_ASK_ 0x10000

/* A word that is 0 until an agent that was started after the program asks it to connect. */
extern const volatile uint64_t *const blkkin_call_;

/* True if any of these levels (bits) is recorded; slow path for undecided levels. */
int blkkin_enabled_by_now(int levels);

/* False only if certainly none of these levels (bits) is recorded. */
BLKKIN_INLINE int blkkin_may_be_enabled_(int levels, int bits)
{
	return (levels & bits) &&
	       (levels >= 0 || (levels & BLKKIN_ASK_) || *blkkin_call_ != 0);
}

BLKKIN_INLINE int blkkin_any_enabled_(int bits)
{
	const int levels = blkkin_enabled_levels;

	return blkkin_may_be_enabled_(levels, bits) &&
	       (levels >= 0 || blkkin_enabled_by_now(bits));
}

/* True if any level, or this level, is recorded. Costs a load and a branch, and two of each before
 * the first agent. Worth checking before the text of an annotation is built. */
BLKKIN_INLINE int blkkin_enabled(void)
{
	return blkkin_any_enabled_(0x7fff);
}

BLKKIN_INLINE int blkkin_enabled_at(blkkin_level level)
{
	return (unsigned)level < 15 && blkkin_any_enabled_(1 << level);
}

/* False if sampling excluded the request of `trace`; true otherwise, also for NULL. Worth checking
 * before expensive work for annotations; functions that record check it themselves. */
BLKKIN_INLINE int blkkin_followed(const struct blkin_trace *trace)
{
	return trace == NULL || trace->info.trace_id != 0 || trace->info.span_id != -1;
}

/* Record an annotation at a level, in one step. A NULL `endpoint` means the endpoint of the trace.
 * Return 0, or -EINVAL as blkin_record does, and for an invalid level. */
int blkkin_event(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
		 blkkin_level level, const char *event);
int blkkin_keyval_string(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			 blkkin_level level, const char *key, const char *val);
int blkkin_keyval_integer(const struct blkin_trace *trace, const struct blkin_endpoint *endpoint,
			  blkkin_level level, const char *key, int64_t val);

/* True if an annotation is valid and its level is not recorded: the inline equivalent of the library's
 * checks, so that such an annotation needs no call. */
BLKKIN_INLINE int blkkin_passes_(const struct blkin_trace *trace,
				 const struct blkin_endpoint *endpoint, blkkin_level level)
{
	if ((unsigned)level >= 15 || blkkin_may_be_enabled_(blkkin_enabled_levels, 1 << level) ||
	    trace == NULL)
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

/* With these macros, direct calls of the functions cost next to nothing, too, while the level is
 * not recorded. Pointers to the functions, and names in parentheses, refer to the library. */
#define blkkin_event(trace, endpoint, level, event) blkkin_event_(trace, endpoint, level, event)
#define blkkin_keyval_string(trace, endpoint, level, key, val) \
	blkkin_keyval_string_(trace, endpoint, level, key, val)
#define blkkin_keyval_integer(trace, endpoint, level, key, val) \
	blkkin_keyval_integer_(trace, endpoint, level, key, val)

/* The same as expressions without a value. While the level is not recorded, they cost a load and a
 * branch, and evaluate no argument but the level. From C99 and C++11 on, BLKKIN_EVENT also records
 * events with fields; see its description below. */
#define BLKKIN_TRACE_EVENT_(trace, endpoint, level, event) \
	((void)(blkkin_enabled_at(level) && (blkkin_event)(trace, endpoint, level, event)))
#define BLKKIN_KEYVAL_STRING(trace, endpoint, level, key, val) \
	((void)(blkkin_enabled_at(level) &&                    \
		(blkkin_keyval_string)(trace, endpoint, level, key, val)))
#define BLKKIN_KEYVAL_INTEGER(trace, endpoint, level, key, val) \
	((void)(blkkin_enabled_at(level) &&                     \
		(blkkin_keyval_integer)(trace, endpoint, level, key, val)))

/* ---- The macros of blkin -------------------------------------------------------------------- */

/* Functions, so that each argument is evaluated once whether tracing is on or not: programs may
 * rely on side effects of arguments. */
BLKKIN_INLINE void blkkin_timestamp_(const struct blkin_trace *trace,
				     const struct blkin_endpoint *endpoint, const char *event)
{
	BLKKIN_TRACE_EVENT_(trace, endpoint, BLKKIN_WARNING, event);
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

/* These macros are statements with a semicolon, as in blkin: programs use them without another one. So
 * they cannot stand between `if (…)` and `else` without braces; BlkKin's own macros can. */
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

/* Sets the value of the context `name`, which is PROVIDER:NAME, for this process: from now on all
 * channels that want the context add it to their events. Values are truncated to 255 bytes. Returns
 * 0, or -EINVAL if the name is invalid or there are more than 256. Must not be called in signal
 * handlers. */
int blkkin_set_context(const char *name, const char *value);

/* ---- BlkKin's own: ids, and contexts in text headers ----------------------------------------- */

/* Returns a new id of 64 bits, never 0, and unique over a cluster with high probability. */
int64_t blkkin_new_id(void);

/* A trace's ids with the other contents of headers of HTTP-like protocols. To continue a request that
 * came with such a header:
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
	/* The upper half of a trace id of 128 bits; 0 for an id of 64 bits. */
	int64_t trace_id_high;
	/* BLKKIN_SAMPLED and the others, joined by |. */
	uint32_t flags;
};

/* The first two are also bits of W3C's flags. */
#define BLKKIN_SAMPLED 1u  /* the request is to be traced */
#define BLKKIN_RANDOM 2u   /* the trace id is random; W3C wants it passed on */
#define BLKKIN_DEBUG_TRACE 4u /* B3's debug: traced, whatever samplers decide */
#define BLKKIN_DEFERRED 8u /* B3 without a decision: the receiver decides. Comes with BLKKIN_SAMPLED */

/* Maximum size of the text with its NUL, in bytes. */
#define BLKKIN_TRACEPARENT_SIZE 56
#define BLKKIN_B3_SIZE 69

/* Annotations have 64 bits for a trace id. The upper half of a longer id is recorded as a separate
 * event, if a session records it, when a sampled context is created or parsed here. */

/* Creates the context of a new root, with a trace id of 128 bits. Sampling decides whether its
 * flags contain BLKKIN_SAMPLED. Returns 0, or -EINVAL. */
int blkkin_context_init(struct blkkin_context *context);

/* True if the request is sampled; false for NULL. */
BLKKIN_INLINE int blkkin_sampled(const struct blkkin_context *context)
{
	return context != NULL && (context->flags & BLKKIN_SAMPLED);
}

/* Parse `length` bytes: the value of W3C's header traceparent, or of the single header b3. Spaces
 * and tabs around it are ignored. A missing parent's id becomes 0. A b3 header without a decision
 * gives BLKKIN_SAMPLED and BLKKIN_DEFERRED. A b3 header with only a decision (`0`, `1` or `d`)
 * gives ids of 0: begin a root, and apply the flags. Return 0, or -EINVAL for NULL and for headers
 * that the specification calls invalid: handle these like a missing header. */
int blkkin_traceparent_parse(const char *text, size_t length, struct blkkin_context *context);
int blkkin_b3_parse(const char *text, size_t length, struct blkkin_context *context);

/* Write the header's value and a NUL into `size` bytes at `text`. Return the length without the
 * NUL; -EINVAL for NULL, or a trace or span id of 0 (b3 accepts both as 0 with a decision); -ENOSPC
 * if it does not fit. On errors `text` is unchanged. */
int blkkin_traceparent_format(const struct blkkin_context *context, char *text, size_t size);
int blkkin_b3_format(const struct blkkin_context *context, char *text, size_t size);

/* ---- BlkKin's own: the current span ---------------------------------------------------------- */

/* The span for which a thread works, shown to observers outside of the program: a recorder in the
 * kernel attributes the thread's system calls and other events to it. It changes nothing else:
 * children and annotations belong to the trace that the program names.
 *
 *     struct blkkin_entered entered;
 *
 *     blkkin_span_enter(&entered, &trace);
 *     pwrite(file, data, size, offset);
 *     blkkin_span_exit(&entered);
 *
 * Enter and exit come in pairs, on one thread, and may be nested; the exit restores the span that the
 * enter found. Exit before the thread works for others: in an event loop or a coroutine, enter at
 * each resumption and exit at each suspension. Both may be called in signal handlers. The functions
 * of blkin do not set the current span, because none of them says when the work for a span is over.
 *
 * If a session enables the event `blkkin:run`, a thread that stops to show a span, at the exit or at
 * the enter of another span, records for how long it showed the span. */
struct blkkin_entered {
	uint64_t replaced_[4];
	uint64_t restores_;
};

/* Make the span of `trace`, or of `context` with its trace id of 128 bits, the thread's current
 * span. If the request is not sampled, if the ids are 0, and for NULL, the thread has no current
 * span until the exit. The structure that is passed first is set; it must not be NULL. All return 0,
 * or -EINVAL for NULL in its place. */
int blkkin_span_enter(struct blkkin_entered *entered, const struct blkin_trace *trace);
int blkkin_context_enter(struct blkkin_entered *entered, const struct blkkin_context *context);
int blkkin_span_exit(const struct blkkin_entered *entered);

/* ---- BlkKin's own: events with fields ------------------------------------------------------- */

/* Records an event PROVIDER:NAME with fields of its own, in one line and without generated files:
 *
 *     BLKKIN_EVENT(osd, write, BLKKIN_INFO, (int, count, n), (string, path, p));
 *
 * It is a statement. While no session records such events, it costs three loads and a branch, and
 * evaluates no argument; provider, name and level have to be constant. `blkkin event list` shows its
 * source line, and sessions, filters and readers treat it like all other events. It may be used in
 * signal handlers, in headers and in libraries that are unloaded. C99 and later, C++11 and later.
 *
 * Provider and name are identifiers as in C, or literals. Up to 32 fields follow, each in parentheses:
 * its type, its name, and its value.
 *
 *     (int, name, value)       also short, long, unsigned, ushort, ulong, size (a size_t),
 *                              int8 to int64, uint8 to uint64, float, double, bool
 *     (hex32, name, value)     shown in hexadecimal; also hex8, hex16, hex64
 *     (pointer, name, value)   an address
 *     (string, name, value)    a string with its NUL; NULL is an empty one
 *     (text, name, start, length)           a string of `length` bytes
 *     (bytes, name, start, length)          `length` bytes
 *     (array, name, int, start, 3)          three elements of any number type above; 3 is constant
 *     (sequence, name, int, start, length)  `length` elements
 *     (enum, name, value, labels)           an int with labels for some values:
 *         static const struct blkkin_label labels[] = {{"idle", 0}, {"busy", 1}};
 *
 * Strings longer than the channel's limit are truncated and end with `...[cut: 100000 bytes]`. Arrays
 * and sequences are never truncated: an event that does not fit is counted as lost.
 *
 * On x86-64 and ARM64 the event is also a USDT probe, to which `bpftrace`, `perf` and SystemTap
 * attach, with or without an agent. It fires while one of them is attached:
 *
 *     bpftrace -e 'usdt:./osd:osd:write { printf("%d %s\n", arg0, str(arg1)); }'
 *
 * The fields are the arguments: numbers and enumerations by value (float and double as the integer
 * with the same bits), strings as their address. The first 255 bytes of a text are passed with a NUL
 * after them. An array is the address of its first element; a sequence and bytes are two arguments,
 * address and length: buf(arg2, arg3). The first twelve arguments are passed. An event for which
 * the compiler or the assembler fails, for instance because its name contains one of the characters
 * %, {, | and }, compiles with BLKKIN_NO_USDT defined before this header: no event of the file is a
 * probe then.
 *
 * A compiler error about BLKKIN_CLASS_x means that x is no type of a field. Two fields with the same
 * name are an error, too. From C11 on, an invalid level does not compile. */

/* A label of an enumeration. */
struct blkkin_label {
	const char *name;
	int64_t value;
};

/* Internals of BLKKIN_EVENT. */
struct blkkin_field_ {
	const char *name;
	int kind;
	int shape;
	size_t count;
	const struct blkkin_label *labels;
};

/* Call site of an event; the library fills in the first two fields. */
struct blkkin_site_ {
	const volatile uint64_t *wanted;
	const void *type;
	const char *name;
	const char *file;
	int line;
	int level;
	size_t fields_count;
	const struct blkkin_field_ *fields;
};

struct blkkin_value_ {
	uint64_t number;
	const void *start;
	size_t length;
};

/* Not 0: the target of `wanted` in a call site that is not registered yet. */
extern const volatile uint64_t blkkin_unknown_;

/* Registers a call site; true if a session records its events. */
int blkkin_know_(struct blkkin_site_ *site);

void blkkin_record_(struct blkkin_site_ *site, const struct blkkin_value_ *values);

#if (defined(__cplusplus) && __cplusplus >= 201103L) || \
	(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)

#define BLKKIN_EVENT(provider, name, ...)                                                      \
	BLKKIN_CAT1_(BLKKIN_EVENT_AS_, BLKKIN_CAT2_(BLKKIN_FORM_, BLKKIN_SIZE_(__VA_ARGS__))(     \
					       __VA_ARGS__, ~))                                \
	(#provider ":" #name, provider, name, __VA_ARGS__)

/* Form with a trace, an endpoint, a level, and the text of the event. */
#define BLKKIN_EVENT_AS_0(named, trace, endpoint, level, event) \
	BLKKIN_TRACE_EVENT_(trace, endpoint, level, event)

/* Form with provider, name, level and fields. */
#define BLKKIN_EVENT_AS_1(named, provider, name, ...)                                          \
	do {                                                                                   \
		enum { BLKKIN_EACH_(BLKKIN_UNIQUE_, __VA_ARGS__) blkkin_fields_end_ };         \
		static const struct blkkin_field_ blkkin_fields_[] = {                         \
			BLKKIN_EACH_(BLKKIN_FIELD_, __VA_ARGS__){NULL, 0, 0, 0, NULL}};        \
		static struct blkkin_site_ blkkin_site_ = {                                    \
			&blkkin_unknown_,                                                      \
			NULL,                                                                  \
			named,                                                                 \
			__FILE__,                                                              \
			__LINE__,                                                              \
			BLKKIN_FIRST_(__VA_ARGS__, ~),                                         \
			sizeof(blkkin_fields_) / sizeof(blkkin_fields_[0]) - 1,                \
			blkkin_fields_};                                                       \
		uint64_t blkkin_word_ = *__atomic_load_n(&blkkin_site_.wanted, __ATOMIC_RELAXED); \
		int blkkin_any_;                                                               \
		BLKKIN_IS_LEVEL_(BLKKIN_FIRST_(__VA_ARGS__, ~))                                \
		BLKKIN_OR_SEMAPHORE_(blkkin_word_, blkkin_any_, provider, name);               \
		if (__builtin_expect(blkkin_any_, 0)) {                                        \
			const int blkkin_recorded_ =                                           \
				*__atomic_load_n(&blkkin_site_.wanted, __ATOMIC_RELAXED) != 0 && \
				(__atomic_load_n(&blkkin_site_.type, __ATOMIC_RELAXED) != NULL || \
				 blkkin_know_(&blkkin_site_));                                 \
			int blkkin_traced_;                                                    \
			BLKKIN_IS_TRACED_(blkkin_traced_, provider, name)                      \
			if (blkkin_recorded_ || blkkin_traced_) {                              \
				struct blkkin_value_ blkkin_values_[] = {                      \
					BLKKIN_EACH_(BLKKIN_VALUE_, __VA_ARGS__){0, NULL, 0}}; \
				if (blkkin_recorded_)                                          \
					blkkin_record_(&blkkin_site_, blkkin_values_);         \
				BLKKIN_FIRE_(provider, name, __VA_ARGS__)                      \
			}                                                                      \
		}                                                                              \
	} while (0)

#if defined(__ELF__) && defined(__LP64__) && !defined(BLKKIN_NO_USDT) && \
	!defined(__code_model_large__) && \
	__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && (defined(__x86_64__) || defined(__aarch64__))

/* USDT probe of an event: a nop, and a note with the addresses of nop and semaphore and with the
 * places of the arguments. The semaphore is the number of attached tracers in 16 bits, which the
 * kernel changes in memory. All events PROVIDER:NAME of a program or library share a semaphore,
 * because BCC and bpftrace use that of the first for all. These tools find it in the section
 * .probes.
 *
 * The assembler reads the semaphore, because C has no name for a variable whose name has the words
 * or literals of an event. `.irp` replaces `\p` and `\n` by them, without the quotes of literals. */
#define BLKKIN_NAMED_(provider, name, text) \
	".irp p," #provider "\n.irp n," #name "\n" text ".endr\n.endr\n"
#define BLKKIN_SYMBOL_ "\"blkkin_semaphore_\\p:\\n\""

/* Adds the bits of the semaphore to `word`; `any` is then true if `word` is not 0. */
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__)
#define BLKKIN_OR_SEMAPHORE_(word, any, provider, name)                                        \
	__asm__ __volatile__(BLKKIN_NAMED_(provider, name, BLKKIN_OR_)                         \
			     : "+a"(word), "=@ccnz"(any))
#elif defined(__x86_64__)
#define BLKKIN_OR_SEMAPHORE_(word, any, provider, name)                                        \
	__asm__ __volatile__(BLKKIN_NAMED_(provider, name, BLKKIN_OR_)                         \
			     : "+a"(word)                                                      \
			     :                                                                 \
			     : "cc");                                                          \
	any = word != 0
#else
#define BLKKIN_OR_SEMAPHORE_(word, any, provider, name)                                        \
	{                                                                                      \
		uint64_t blkkin_semaphore_;                                                    \
		__asm__ __volatile__(                                                          \
			BLKKIN_NAMED_(provider, name,                                          \
				      "adrp %0, " BLKKIN_SYMBOL_ "\n"                          \
				      "ldr %0, [%0, :lo12:" BLKKIN_SYMBOL_ "]\n")              \
			: "=r"(blkkin_semaphore_));                                            \
		any = (word | blkkin_semaphore_) != 0;                                         \
	}
#endif

/* The parts in braces are for programs that are compiled with -masm=intel. */
#define BLKKIN_OR_                                           \
	"{|.att_syntax prefix\n}"                            \
	"orq " BLKKIN_SYMBOL_ "(%%rip), %%rax\n"             \
	"{|.intel_syntax noprefix\n}"

/* Sets `traced` to true if a tracer is attached. */
#define BLKKIN_IS_TRACED_(traced, provider, name)                              \
	{                                                                      \
		uint64_t blkkin_zero_ = 0;                                     \
		BLKKIN_OR_SEMAPHORE_(blkkin_zero_, traced, provider, name);    \
	}

/* Size of the copy of a text, with its NUL. */
#define BLKKIN_TEXT_SIZE_ 256

/* Replaces the texts among an event's values by copies that end with a NUL. */
BLKKIN_INLINE void blkkin_end_texts_(const struct blkkin_field_ *fields,
				     struct blkkin_value_ *values, char *copies)
{
	for (; fields->name != NULL; fields++, values++) {
		size_t length = values->length;
		if (fields->shape != 1 || length == SIZE_MAX)
			continue;
		if (values->start == NULL)
			length = 0;
		else if (length > BLKKIN_TEXT_SIZE_ - 1)
			length = BLKKIN_TEXT_SIZE_ - 1;
		if (length > 0)
			__builtin_memcpy(copies, values->start, length);
		copies[length] = 0;
		values->start = copies;
		copies += BLKKIN_TEXT_SIZE_;
	}
}

/* The arguments are at fixed distances before the end of `blkkin_values_`, whose address is in a
 * register. Their texts are a list of words, of which the assembler writes at most twelve. */
#define BLKKIN_FIRE_(provider, name, ...)                                                      \
	BLKKIN_IS_TRACED_(blkkin_traced_, provider, name)                                      \
	if (blkkin_traced_) {                                                                  \
		char blkkin_texts_[BLKKIN_EACH_(BLKKIN_ROOM_, __VA_ARGS__) 1];                 \
		if (sizeof(blkkin_texts_) > 1)                                                 \
			blkkin_end_texts_(blkkin_fields_, blkkin_values_, blkkin_texts_);      \
		__asm__ __volatile__(                                                          \
			"990: nop\n"                                                           \
			".pushsection .note.stapsdt,\"?\",\"note\"\n"                          \
			".balign 4\n"                                                          \
			".4byte 992f-991f, 994f-993f, 3\n"                                     \
			"991: .asciz \"stapsdt\"\n"                                            \
			"992: .balign 4\n"                                                     \
			"993: .8byte 990b, _.stapsdt.base\n"                                   \
			BLKKIN_NAMED_(provider, name,                                          \
				      ".8byte " BLKKIN_SYMBOL_ "\n"                            \
				      ".asciz \"\\p\"\n"                                      \
				      ".asciz \"\\n\"\n")                                     \
			".set .Lblkkin_count, 0\n"                                             \
			".irp text" BLKKIN_PLACES_(__VA_ARGS__) "\n"                           \
			".if .Lblkkin_count < 12\n"                                            \
			".if .Lblkkin_count\n"                                                 \
			".ascii \" \"\n"                                                       \
			".endif\n"                                                             \
			".ascii \"\\text\"\n"                                                  \
			".endif\n"                                                             \
			".set .Lblkkin_count, .Lblkkin_count + 1\n"                            \
			".endr\n"                                                              \
			".byte 0\n"                                                            \
			"994: .balign 4\n"                                                     \
			".popsection\n"                                                        \
			".ifndef _.stapsdt.base\n"                                             \
			".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"  \
			".weak _.stapsdt.base\n"                                               \
			".hidden _.stapsdt.base\n"                                             \
			"_.stapsdt.base: .space 1\n"                                           \
			".size _.stapsdt.base, 1\n"                                            \
			".popsection\n"                                                        \
			".endif\n"                                                             \
			BLKKIN_NAMED_(provider, name, BLKKIN_DEFINE_SEMAPHORE_)                \
			:                                                                      \
			: BLKKIN_REGISTER_(&blkkin_values_[blkkin_fields_end_])                \
			: "memory");                                                           \
	}

/* Weak, and in a group of its name, so that the linker keeps one of those of several files. */
#define BLKKIN_DEFINE_SEMAPHORE_                                                                 \
	".ifndef " BLKKIN_SYMBOL_ "\n"                                                           \
	".pushsection .probes,\"awG\",\"progbits\"," BLKKIN_SYMBOL_ ",comdat\n"                   \
	".balign 8\n"                                                                            \
	".weak " BLKKIN_SYMBOL_ "\n"                                                             \
	".hidden " BLKKIN_SYMBOL_ "\n" BLKKIN_SYMBOL_ ": .8byte 0\n"                             \
	".popsection\n"                                                                          \
	".endif\n"

#ifdef __x86_64__
#define BLKKIN_REGISTER_(address) "D"(address)
#define BLKKIN_PLACE_(type, distance) ",\"" type "@-" #distance "(%%rdi)\""
#else
#define BLKKIN_REGISTER_(address) "r"(address)
#define BLKKIN_PLACE_(type, distance) ",\"" type "@[%0, -" #distance "]\""
#endif

/* Arguments of a field: BLKKIN_PLACE_NUMBER("-4", 24, 16, 8), with the distances of the parts of its
 * value from the end of all values. */
#define BLKKIN_PLACE_NUMBER(type, number, start, length) BLKKIN_PLACE_(type, number)
#define BLKKIN_PLACE_ENUM(type, number, start, length) BLKKIN_PLACE_("-4", number)
#define BLKKIN_PLACE_STRING(type, number, start, length) BLKKIN_PLACE_("8", start)
#define BLKKIN_PLACE_TEXT(type, number, start, length) BLKKIN_PLACE_("8", start)
#define BLKKIN_PLACE_ARRAY(type, number, start, length) BLKKIN_PLACE_("8", start)
#define BLKKIN_PLACE_SEQUENCE(type, number, start, length) \
	BLKKIN_PLACE_("8", start) BLKKIN_PLACE_("8", length)
#define BLKKIN_PLACE_BYTES(type, number, start, length) \
	BLKKIN_PLACE_("8", start) BLKKIN_PLACE_("8", length)

/* Bytes for a field's copy in `blkkin_texts_`. */
#define BLKKIN_ROOM_(word, ...) BLKKIN_CAT3_(BLKKIN_ROOM_, BLKKIN_CLASS_##word)
#define BLKKIN_ROOM_NUMBER
#define BLKKIN_ROOM_ENUM
#define BLKKIN_ROOM_STRING
#define BLKKIN_ROOM_TEXT BLKKIN_TEXT_SIZE_ +
#define BLKKIN_ROOM_ARRAY
#define BLKKIN_ROOM_SEQUENCE
#define BLKKIN_ROOM_BYTES

/* Size and sign of numbers. */
#define BLKKIN_TYPE_short "-2"
#define BLKKIN_TYPE_int "-4"
#define BLKKIN_TYPE_long "-8"
#define BLKKIN_TYPE_ushort "2"
#define BLKKIN_TYPE_unsigned "4"
#define BLKKIN_TYPE_uint "4"
#define BLKKIN_TYPE_ulong "8"
#define BLKKIN_TYPE_size "8"
#define BLKKIN_TYPE_int8 "-1"
#define BLKKIN_TYPE_int16 "-2"
#define BLKKIN_TYPE_int32 "-4"
#define BLKKIN_TYPE_int64 "-8"
#define BLKKIN_TYPE_uint8 "1"
#define BLKKIN_TYPE_uint16 "2"
#define BLKKIN_TYPE_uint32 "4"
#define BLKKIN_TYPE_uint64 "8"
#define BLKKIN_TYPE_hex8 "1"
#define BLKKIN_TYPE_hex16 "2"
#define BLKKIN_TYPE_hex32 "4"
#define BLKKIN_TYPE_hex64 "8"
#define BLKKIN_TYPE_float "4"
#define BLKKIN_TYPE_double "8"
#define BLKKIN_TYPE_bool "1"
#define BLKKIN_TYPE__Bool "1"
#define BLKKIN_TYPE_pointer "8"
#define BLKKIN_TYPE_string "8"
#define BLKKIN_TYPE_text "8"
#define BLKKIN_TYPE_array "8"
#define BLKKIN_TYPE_sequence "8"
#define BLKKIN_TYPE_bytes "8"
#define BLKKIN_TYPE_enum "-4"

#define BLKKIN_CLASS_OF_(word, ...) BLKKIN_CLASS_##word
#define BLKKIN_TYPE_OF_(word, ...) BLKKIN_TYPE_##word
#define BLKKIN_PLACE_OF_(x, number, start, length) \
	BLKKIN_PLACE_AS_(BLKKIN_CLASS_OF_ x, BLKKIN_TYPE_OF_ x, number, start, length)
#define BLKKIN_PLACE_AS_(class, type, number, start, length) \
	BLKKIN_CAT3_(BLKKIN_PLACE_, class)(type, number, start, length)

/* The arguments of all fields after the level. A value has three parts of 8 bytes. */
#define BLKKIN_PLACES_(...) BLKKIN_CAT2_(BLKKIN_PLACES_, BLKKIN_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define BLKKIN_PLACES_1(level) ",\"\""
#define BLKKIN_PLACES_2(level, x) BLKKIN_PLACE_OF_(x, 24, 16, 8)
#define BLKKIN_PLACES_3(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 48, 40, 32) BLKKIN_PLACES_2(level, __VA_ARGS__)
#define BLKKIN_PLACES_4(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 72, 64, 56) BLKKIN_PLACES_3(level, __VA_ARGS__)
#define BLKKIN_PLACES_5(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 96, 88, 80) BLKKIN_PLACES_4(level, __VA_ARGS__)
#define BLKKIN_PLACES_6(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 120, 112, 104) BLKKIN_PLACES_5(level, __VA_ARGS__)
#define BLKKIN_PLACES_7(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 144, 136, 128) BLKKIN_PLACES_6(level, __VA_ARGS__)
#define BLKKIN_PLACES_8(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 168, 160, 152) BLKKIN_PLACES_7(level, __VA_ARGS__)
#define BLKKIN_PLACES_9(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 192, 184, 176) BLKKIN_PLACES_8(level, __VA_ARGS__)
#define BLKKIN_PLACES_10(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 216, 208, 200) BLKKIN_PLACES_9(level, __VA_ARGS__)
#define BLKKIN_PLACES_11(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 240, 232, 224) BLKKIN_PLACES_10(level, __VA_ARGS__)
#define BLKKIN_PLACES_12(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 264, 256, 248) BLKKIN_PLACES_11(level, __VA_ARGS__)
#define BLKKIN_PLACES_13(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 288, 280, 272) BLKKIN_PLACES_12(level, __VA_ARGS__)
#define BLKKIN_PLACES_14(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 312, 304, 296) BLKKIN_PLACES_13(level, __VA_ARGS__)
#define BLKKIN_PLACES_15(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 336, 328, 320) BLKKIN_PLACES_14(level, __VA_ARGS__)
#define BLKKIN_PLACES_16(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 360, 352, 344) BLKKIN_PLACES_15(level, __VA_ARGS__)
#define BLKKIN_PLACES_17(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 384, 376, 368) BLKKIN_PLACES_16(level, __VA_ARGS__)
#define BLKKIN_PLACES_18(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 408, 400, 392) BLKKIN_PLACES_17(level, __VA_ARGS__)
#define BLKKIN_PLACES_19(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 432, 424, 416) BLKKIN_PLACES_18(level, __VA_ARGS__)
#define BLKKIN_PLACES_20(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 456, 448, 440) BLKKIN_PLACES_19(level, __VA_ARGS__)
#define BLKKIN_PLACES_21(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 480, 472, 464) BLKKIN_PLACES_20(level, __VA_ARGS__)
#define BLKKIN_PLACES_22(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 504, 496, 488) BLKKIN_PLACES_21(level, __VA_ARGS__)
#define BLKKIN_PLACES_23(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 528, 520, 512) BLKKIN_PLACES_22(level, __VA_ARGS__)
#define BLKKIN_PLACES_24(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 552, 544, 536) BLKKIN_PLACES_23(level, __VA_ARGS__)
#define BLKKIN_PLACES_25(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 576, 568, 560) BLKKIN_PLACES_24(level, __VA_ARGS__)
#define BLKKIN_PLACES_26(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 600, 592, 584) BLKKIN_PLACES_25(level, __VA_ARGS__)
#define BLKKIN_PLACES_27(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 624, 616, 608) BLKKIN_PLACES_26(level, __VA_ARGS__)
#define BLKKIN_PLACES_28(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 648, 640, 632) BLKKIN_PLACES_27(level, __VA_ARGS__)
#define BLKKIN_PLACES_29(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 672, 664, 656) BLKKIN_PLACES_28(level, __VA_ARGS__)
#define BLKKIN_PLACES_30(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 696, 688, 680) BLKKIN_PLACES_29(level, __VA_ARGS__)
#define BLKKIN_PLACES_31(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 720, 712, 704) BLKKIN_PLACES_30(level, __VA_ARGS__)
#define BLKKIN_PLACES_32(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 744, 736, 728) BLKKIN_PLACES_31(level, __VA_ARGS__)
#define BLKKIN_PLACES_33(level, x, ...) \
	BLKKIN_PLACE_OF_(x, 768, 760, 752) BLKKIN_PLACES_32(level, __VA_ARGS__)

#else
#define BLKKIN_OR_SEMAPHORE_(word, any, provider, name) any = word != 0
#define BLKKIN_IS_TRACED_(traced, provider, name) traced = 0;
#define BLKKIN_FIRE_(provider, name, ...)
#endif

#if defined(__cplusplus)
#define BLKKIN_IS_LEVEL_(level) \
	static_assert((unsigned)(level) < 15, "the third argument of BLKKIN_EVENT is a level");
#elif __STDC_VERSION__ >= 201112L
#define BLKKIN_IS_LEVEL_(level) \
	_Static_assert((unsigned)(level) < 15, "the third argument of BLKKIN_EVENT is a level");
#else
#define BLKKIN_IS_LEVEL_(level)
#endif

/* Expansion of a field in the three lists above: BLKKIN_FIELD_NUMBER(int, count, n) and so on. */
#define BLKKIN_UNIQUE_(word, name, ...) blkkin_field_##name,
#define BLKKIN_FIELD_(word, name, ...) \
	BLKKIN_CAT3_(BLKKIN_FIELD_, BLKKIN_CLASS_##word)(word, name, __VA_ARGS__)
#define BLKKIN_VALUE_(word, name, ...) \
	BLKKIN_CAT3_(BLKKIN_VALUE_, BLKKIN_CLASS_##word)(word, name, __VA_ARGS__)

#define BLKKIN_FIELD_NUMBER(word, name, value) {#name, BLKKIN_KIND_##word, 0, 0, NULL},
#define BLKKIN_FIELD_STRING(word, name, value) {#name, 0, 1, 0, NULL},
#define BLKKIN_FIELD_TEXT(word, name, start, length) {#name, 0, 1, 0, NULL},
#define BLKKIN_FIELD_ARRAY(word, name, of, start, count) {#name, BLKKIN_KIND_##of, 2, count, NULL},
#define BLKKIN_FIELD_SEQUENCE(word, name, of, start, length) {#name, BLKKIN_KIND_##of, 3, 0, NULL},
#define BLKKIN_FIELD_BYTES(word, name, start, length) {#name, BLKKIN_X8_, 3, 0, NULL},
#define BLKKIN_FIELD_ENUM(word, name, value, labels) \
	{#name, BLKKIN_KIND_int, 4, sizeof(labels) / sizeof((labels)[0]), labels},

#define BLKKIN_VALUE_NUMBER(word, name, value) blkkin_of_##word(value),
#define BLKKIN_VALUE_STRING(word, name, value) blkkin_of_string(value),
#define BLKKIN_VALUE_TEXT(word, name, start, length) blkkin_of_text(start, length),
#define BLKKIN_VALUE_ARRAY(word, name, of, start, count) blkkin_of_##of##_many(start, count),
#define BLKKIN_VALUE_SEQUENCE(word, name, of, start, length) blkkin_of_##of##_many(start, length),
#define BLKKIN_VALUE_BYTES(word, name, start, length) blkkin_of_bytes(start, length),
#define BLKKIN_VALUE_ENUM(word, name, value, labels) blkkin_of_int(value),

#define BLKKIN_CLASS_string STRING
#define BLKKIN_CLASS_text TEXT
#define BLKKIN_CLASS_array ARRAY
#define BLKKIN_CLASS_sequence SEQUENCE
#define BLKKIN_CLASS_bytes BYTES
#define BLKKIN_CLASS_enum ENUM

/* Kinds of numbers: sizes of 1, 2, 4 and 8 bytes follow each other. */
#define BLKKIN_U8_ 0
#define BLKKIN_I8_ 4
#define BLKKIN_F32_ 8
#define BLKKIN_BOOL_ 10
#define BLKKIN_X8_ 11
#define BLKKIN_SIZED_(type) \
	(sizeof(type) == 1 ? 0 : sizeof(type) == 2 ? 1 : sizeof(type) == 4 ? 2 : 3)
#define BLKKIN_SIGNED_(type) (BLKKIN_I8_ + BLKKIN_SIZED_(type))
#define BLKKIN_UNSIGNED_(type) (BLKKIN_U8_ + BLKKIN_SIZED_(type))

BLKKIN_INLINE struct blkkin_value_ blkkin_of_bytes(const void *start, size_t length)
{
	struct blkkin_value_ value = {0, NULL, 0};
	value.start = start;
	value.length = length;
	return value;
}

BLKKIN_INLINE struct blkkin_value_ blkkin_of_text(const char *start, size_t length)
{
	return blkkin_of_bytes(start, length);
}

BLKKIN_INLINE struct blkkin_value_ blkkin_of_string(const char *string)
{
	return blkkin_of_bytes(string, SIZE_MAX);
}

#define BLKKIN_NUMBER_(word, type)                                                              \
	BLKKIN_INLINE struct blkkin_value_ blkkin_of_##word##_many(const type *start, size_t length) \
	{                                                                                       \
		return blkkin_of_bytes(start, length);                                          \
	}                                                                                       \
	BLKKIN_INLINE struct blkkin_value_ blkkin_of_##word(type number)

#define BLKKIN_INTEGER_(word, type)                                                             \
	BLKKIN_NUMBER_(word, type)                                                              \
	{                                                                                       \
		struct blkkin_value_ value = {0, NULL, 0};                                      \
		value.number = (uint64_t)number;                                                \
		return value;                                                                   \
	}
BLKKIN_INTEGER_(short, short)
#define BLKKIN_CLASS_short NUMBER
#define BLKKIN_KIND_short BLKKIN_SIGNED_(short)
BLKKIN_INTEGER_(int, int)
#define BLKKIN_CLASS_int NUMBER
#define BLKKIN_KIND_int BLKKIN_SIGNED_(int)
BLKKIN_INTEGER_(long, long)
#define BLKKIN_CLASS_long NUMBER
#define BLKKIN_KIND_long BLKKIN_SIGNED_(long)
BLKKIN_INTEGER_(ushort, unsigned short)
#define BLKKIN_CLASS_ushort NUMBER
#define BLKKIN_KIND_ushort BLKKIN_UNSIGNED_(short)
BLKKIN_INTEGER_(unsigned, unsigned)
#define BLKKIN_CLASS_unsigned NUMBER
#define BLKKIN_KIND_unsigned BLKKIN_UNSIGNED_(int)
BLKKIN_INTEGER_(uint, unsigned)
#define BLKKIN_CLASS_uint NUMBER
#define BLKKIN_KIND_uint BLKKIN_UNSIGNED_(int)
BLKKIN_INTEGER_(ulong, unsigned long)
#define BLKKIN_CLASS_ulong NUMBER
#define BLKKIN_KIND_ulong BLKKIN_UNSIGNED_(long)
BLKKIN_INTEGER_(size, size_t)
#define BLKKIN_CLASS_size NUMBER
#define BLKKIN_KIND_size BLKKIN_UNSIGNED_(size_t)
BLKKIN_INTEGER_(int8, int8_t)
#define BLKKIN_CLASS_int8 NUMBER
#define BLKKIN_KIND_int8 BLKKIN_I8_
BLKKIN_INTEGER_(int16, int16_t)
#define BLKKIN_CLASS_int16 NUMBER
#define BLKKIN_KIND_int16 (BLKKIN_I8_ + 1)
BLKKIN_INTEGER_(int32, int32_t)
#define BLKKIN_CLASS_int32 NUMBER
#define BLKKIN_KIND_int32 (BLKKIN_I8_ + 2)
BLKKIN_INTEGER_(int64, int64_t)
#define BLKKIN_CLASS_int64 NUMBER
#define BLKKIN_KIND_int64 (BLKKIN_I8_ + 3)
BLKKIN_INTEGER_(uint8, uint8_t)
#define BLKKIN_CLASS_uint8 NUMBER
#define BLKKIN_KIND_uint8 BLKKIN_U8_
BLKKIN_INTEGER_(uint16, uint16_t)
#define BLKKIN_CLASS_uint16 NUMBER
#define BLKKIN_KIND_uint16 (BLKKIN_U8_ + 1)
BLKKIN_INTEGER_(uint32, uint32_t)
#define BLKKIN_CLASS_uint32 NUMBER
#define BLKKIN_KIND_uint32 (BLKKIN_U8_ + 2)
BLKKIN_INTEGER_(uint64, uint64_t)
#define BLKKIN_CLASS_uint64 NUMBER
#define BLKKIN_KIND_uint64 (BLKKIN_U8_ + 3)
BLKKIN_INTEGER_(hex8, uint8_t)
#define BLKKIN_CLASS_hex8 NUMBER
#define BLKKIN_KIND_hex8 BLKKIN_X8_
BLKKIN_INTEGER_(hex16, uint16_t)
#define BLKKIN_CLASS_hex16 NUMBER
#define BLKKIN_KIND_hex16 (BLKKIN_X8_ + 1)
BLKKIN_INTEGER_(hex32, uint32_t)
#define BLKKIN_CLASS_hex32 NUMBER
#define BLKKIN_KIND_hex32 (BLKKIN_X8_ + 2)
BLKKIN_INTEGER_(hex64, uint64_t)
#define BLKKIN_CLASS_hex64 NUMBER
#define BLKKIN_KIND_hex64 (BLKKIN_X8_ + 3)

BLKKIN_NUMBER_(float, float)
{
	union {
		float number;
		uint32_t bits;
	} both;
	struct blkkin_value_ value = {0, NULL, 0};
	both.number = number;
	value.number = both.bits;
	return value;
}
#define BLKKIN_CLASS_float NUMBER
#define BLKKIN_KIND_float BLKKIN_F32_

BLKKIN_NUMBER_(double, double)
{
	union {
		double number;
		uint64_t bits;
	} both;
	struct blkkin_value_ value = {0, NULL, 0};
	both.number = number;
	value.number = both.bits;
	return value;
}
#define BLKKIN_CLASS_double NUMBER
#define BLKKIN_KIND_double (BLKKIN_F32_ + 1)

#ifdef __cplusplus
#define BLKKIN_TRUTH_ bool
#else
#define BLKKIN_TRUTH_ _Bool
#endif
BLKKIN_NUMBER_(truth_, BLKKIN_TRUTH_)
{
	struct blkkin_value_ value = {0, NULL, 0};
	value.number = number;
	return value;
}
/* In C, `bool` may be a macro. */
#define blkkin_of_bool blkkin_of_truth_
#define blkkin_of__Bool blkkin_of_truth_
#define blkkin_of_bool_many blkkin_of_truth__many
#define blkkin_of__Bool_many blkkin_of_truth__many
#define BLKKIN_CLASS_bool NUMBER
#define BLKKIN_CLASS__Bool NUMBER
#define BLKKIN_KIND_bool BLKKIN_BOOL_
#define BLKKIN_KIND__Bool BLKKIN_BOOL_

BLKKIN_INLINE struct blkkin_value_ blkkin_of_pointer(const volatile void *pointer)
{
	struct blkkin_value_ value = {0, NULL, 0};
	value.number = (uint64_t)(uintptr_t)pointer;
	return value;
}
#define BLKKIN_CLASS_pointer NUMBER
#define BLKKIN_KIND_pointer (BLKKIN_X8_ + 3)

#undef BLKKIN_TRUTH_
#undef BLKKIN_INTEGER_
#undef BLKKIN_NUMBER_

/* Selects the form of BLKKIN_EVENT: the one with fields, unless there are four arguments and the
 * last is no field. */
#define BLKKIN_FORM_ONE(...) 1
#define BLKKIN_FORM_TWO(level, last, ...) BLKKIN_SECOND_(BLKKIN_TUPLE_ last, 0, ~)
#define BLKKIN_FORM_MANY(...) 1
#define BLKKIN_TUPLE_(...) BLKKIN_CAT3_(BLKKIN_TUPLE_OF_, BLKKIN_SIZE_(__VA_ARGS__))
#define BLKKIN_TUPLE_OF_ONE ~, 0
#define BLKKIN_TUPLE_OF_TWO ~, 0
#define BLKKIN_TUPLE_OF_MANY ~, 1

#define BLKKIN_CAT1_(a, b) BLKKIN_CAT1_I_(a, b)
#define BLKKIN_CAT1_I_(a, b) a##b
#define BLKKIN_CAT2_(a, b) BLKKIN_CAT2_I_(a, b)
#define BLKKIN_CAT2_I_(a, b) a##b
#define BLKKIN_CAT3_(a, b) BLKKIN_CAT3_I_(a, b)
#define BLKKIN_CAT3_I_(a, b) a##b
#define BLKKIN_FIRST_(first, ...) first
#define BLKKIN_SECOND_(...) BLKKIN_SECOND_I_(__VA_ARGS__)
#define BLKKIN_SECOND_I_(first, second, ...) second
#define BLKKIN_AT_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, \
	a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, \
	a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, at, ...) \
	at
#define BLKKIN_SIZE_(...) BLKKIN_AT_(__VA_ARGS__, \
	MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	MANY, MANY, MANY, TWO, ONE, ~)
#define BLKKIN_COUNT_(...) BLKKIN_AT_(__VA_ARGS__, \
	33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, \
	12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, ~)

/* Calls a macro with each field after the level. */
#define BLKKIN_EACH_(m, ...) BLKKIN_CAT2_(BLKKIN_EACH_, BLKKIN_COUNT_(__VA_ARGS__))(m, __VA_ARGS__)
#define BLKKIN_EACH_1(m, level)
#define BLKKIN_EACH_2(m, level, x) m x
#define BLKKIN_EACH_3(m, level, x, ...) m x BLKKIN_EACH_2(m, level, __VA_ARGS__)
#define BLKKIN_EACH_4(m, level, x, ...) m x BLKKIN_EACH_3(m, level, __VA_ARGS__)
#define BLKKIN_EACH_5(m, level, x, ...) m x BLKKIN_EACH_4(m, level, __VA_ARGS__)
#define BLKKIN_EACH_6(m, level, x, ...) m x BLKKIN_EACH_5(m, level, __VA_ARGS__)
#define BLKKIN_EACH_7(m, level, x, ...) m x BLKKIN_EACH_6(m, level, __VA_ARGS__)
#define BLKKIN_EACH_8(m, level, x, ...) m x BLKKIN_EACH_7(m, level, __VA_ARGS__)
#define BLKKIN_EACH_9(m, level, x, ...) m x BLKKIN_EACH_8(m, level, __VA_ARGS__)
#define BLKKIN_EACH_10(m, level, x, ...) m x BLKKIN_EACH_9(m, level, __VA_ARGS__)
#define BLKKIN_EACH_11(m, level, x, ...) m x BLKKIN_EACH_10(m, level, __VA_ARGS__)
#define BLKKIN_EACH_12(m, level, x, ...) m x BLKKIN_EACH_11(m, level, __VA_ARGS__)
#define BLKKIN_EACH_13(m, level, x, ...) m x BLKKIN_EACH_12(m, level, __VA_ARGS__)
#define BLKKIN_EACH_14(m, level, x, ...) m x BLKKIN_EACH_13(m, level, __VA_ARGS__)
#define BLKKIN_EACH_15(m, level, x, ...) m x BLKKIN_EACH_14(m, level, __VA_ARGS__)
#define BLKKIN_EACH_16(m, level, x, ...) m x BLKKIN_EACH_15(m, level, __VA_ARGS__)
#define BLKKIN_EACH_17(m, level, x, ...) m x BLKKIN_EACH_16(m, level, __VA_ARGS__)
#define BLKKIN_EACH_18(m, level, x, ...) m x BLKKIN_EACH_17(m, level, __VA_ARGS__)
#define BLKKIN_EACH_19(m, level, x, ...) m x BLKKIN_EACH_18(m, level, __VA_ARGS__)
#define BLKKIN_EACH_20(m, level, x, ...) m x BLKKIN_EACH_19(m, level, __VA_ARGS__)
#define BLKKIN_EACH_21(m, level, x, ...) m x BLKKIN_EACH_20(m, level, __VA_ARGS__)
#define BLKKIN_EACH_22(m, level, x, ...) m x BLKKIN_EACH_21(m, level, __VA_ARGS__)
#define BLKKIN_EACH_23(m, level, x, ...) m x BLKKIN_EACH_22(m, level, __VA_ARGS__)
#define BLKKIN_EACH_24(m, level, x, ...) m x BLKKIN_EACH_23(m, level, __VA_ARGS__)
#define BLKKIN_EACH_25(m, level, x, ...) m x BLKKIN_EACH_24(m, level, __VA_ARGS__)
#define BLKKIN_EACH_26(m, level, x, ...) m x BLKKIN_EACH_25(m, level, __VA_ARGS__)
#define BLKKIN_EACH_27(m, level, x, ...) m x BLKKIN_EACH_26(m, level, __VA_ARGS__)
#define BLKKIN_EACH_28(m, level, x, ...) m x BLKKIN_EACH_27(m, level, __VA_ARGS__)
#define BLKKIN_EACH_29(m, level, x, ...) m x BLKKIN_EACH_28(m, level, __VA_ARGS__)
#define BLKKIN_EACH_30(m, level, x, ...) m x BLKKIN_EACH_29(m, level, __VA_ARGS__)
#define BLKKIN_EACH_31(m, level, x, ...) m x BLKKIN_EACH_30(m, level, __VA_ARGS__)
#define BLKKIN_EACH_32(m, level, x, ...) m x BLKKIN_EACH_31(m, level, __VA_ARGS__)
#define BLKKIN_EACH_33(m, level, x, ...) m x BLKKIN_EACH_32(m, level, __VA_ARGS__)

#else
#define BLKKIN_EVENT(trace, endpoint, level, event) \
	BLKKIN_TRACE_EVENT_(trace, endpoint, level, event)
#endif

#ifdef __cplusplus
}
#endif

#endif
