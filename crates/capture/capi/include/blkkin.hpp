// BlkKin in C++17: follow one request through every layer that it crosses. A thin layer over
// <blkkin.h>, which explains the terms; nothing here allocates or throws.
//
//     #include <blkkin.hpp>
//
//     static const blkkin::Endpoint osd{"osd.3", "10.0.0.7", 6802};
//
//     void serve(std::string_view header)
//     {
//         blkkin::Span request{blkkin::Trace::receive("client io", osd, header)};
//         request.event(blkkin::server_recv);
//         {
//             blkkin::Span write{request.child("write")};
//             write.keyval("bytes", 4096);
//             send(write.traceparent().c_str());
//         } // the span "write" ends here
//     }
//
//     c++ -std=c++17 serve.cc -lblkkin
//
// Strings and endpoints are borrowed, as in C: names and endpoints have to live as long as the
// traces that use them. String literals and static endpoints always do. The arguments of event and
// keyval are needed for the call only.
#ifndef BLKKIN_HPP
#define BLKKIN_HPP

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "blkkin.h"

namespace blkkin {

// Severity of an annotation. Smaller is more severe.
enum class Level {
	emerg = BLKKIN_EMERG,
	alert = BLKKIN_ALERT,
	crit = BLKKIN_CRIT,
	err = BLKKIN_ERR,
	warning = BLKKIN_WARNING,
	notice = BLKKIN_NOTICE,
	info = BLKKIN_INFO,
	debug_system = BLKKIN_DEBUG_SYSTEM,
	debug_program = BLKKIN_DEBUG_PROGRAM,
	debug_process = BLKKIN_DEBUG_PROCESS,
	debug_module = BLKKIN_DEBUG_MODULE,
	debug_unit = BLKKIN_DEBUG_UNIT,
	debug_function = BLKKIN_DEBUG_FUNCTION,
	debug_line = BLKKIN_DEBUG_LINE,
	debug = BLKKIN_DEBUG,
};

// Zipkin's core annotations.
inline constexpr const char *client_send = "cs";
inline constexpr const char *client_recv = "cr";
inline constexpr const char *server_send = "ss";
inline constexpr const char *server_recv = "sr";
inline constexpr const char *wire_send = "ws";
inline constexpr const char *wire_recv = "wr";

// The first and the last annotation of a Span. The last is a convention of blkin's users.
inline constexpr const char *span_started = "Span started";
inline constexpr const char *span_ended = "Span ended";

// True if any level, or this level, is recorded.
inline bool enabled() noexcept
{
	return blkkin_enabled();
}

inline bool enabled(Level level) noexcept
{
	return blkkin_enabled_at(static_cast<blkkin_level>(level));
}

// A service and its address.
class Endpoint {
	blkin_endpoint in_c;

	friend class Trace;

public:
	constexpr Endpoint(const char *name, const char *ip = "", int port = 0) noexcept
	    : in_c{ip, port, name}
	{
	}
};

// Value of a header, stored inline.
template <std::size_t size> class Header {
	char bytes[size] = {};
	std::size_t used = 0;

	friend class Trace;

public:
	const char *c_str() const noexcept
	{
		return bytes;
	}

	operator std::string_view() const noexcept
	{
		return {bytes, used};
	}

	// Empty for a trace without ids.
	bool empty() const noexcept
	{
		return used == 0;
	}
};

using Traceparent = Header<BLKKIN_TRACEPARENT_SIZE>;
using B3 = Header<BLKKIN_B3_SIZE>;

// Parse the headers; return nothing if a header is invalid or missing.
inline std::optional<blkkin_context> parse_traceparent(std::string_view header) noexcept
{
	blkkin_context context;
	if (blkkin_traceparent_parse(header.data(), header.size(), &context) < 0)
		return std::nullopt;
	return context;
}

inline std::optional<blkkin_context> parse_b3(std::string_view header) noexcept
{
	blkkin_context context;
	if (blkkin_b3_parse(header.data(), header.size(), &context) < 0)
		return std::nullopt;
	return context;
}

// A step that is the thread's current span until the end of this guard's scope; Trace::enter makes
// it. See blkkin_span_enter in <blkkin.h>. The guard then restores the former current span, and
// records the run if a session enables `blkkin:run`. It belongs to its thread and its scope, so it
// can be neither copied nor moved.
class [[nodiscard]] EnteredSpan {
	blkkin_entered in_c;

	friend class Trace;

	explicit EnteredSpan(const blkkin_context &context) noexcept
	{
		blkkin_context_enter(&in_c, &context);
	}

public:
	EnteredSpan(const EnteredSpan &) = delete;
	EnteredSpan &operator=(const EnteredSpan &) = delete;

	~EnteredSpan()
	{
		blkkin_span_exit(&in_c);
	}
};

// A step of a request: a small value that can be copied, moved to other threads and dropped freely.
// Copies are the same step. A default-constructed or unsampled trace records nothing, and neither
// do its children.
class Trace {
	blkin_trace in_c = {};
	std::int64_t trace_id_high = 0;
	std::uint32_t flags = 0;

	Trace(const char *name, const blkin_endpoint *endpoint, const blkkin_context &context) noexcept
	    : trace_id_high{context.trace_id_high}, flags{context.flags}
	{
		in_c.name = name;
		in_c.endpoint = endpoint;
		in_c.info = context.info;
	}

	bool records(Level level) const noexcept
	{
		return enabled(level) && sampled();
	}

public:
	// Belongs to no request.
	Trace() noexcept = default;

	// Begins a request.
	static Trace root(const char *name, const Endpoint &endpoint) noexcept
	{
		blkkin_context context;
		blkkin_context_init(&context);
		return {name, &endpoint.in_c, context};
	}

	// Continues a request of another process. A context with only a sampling decision begins a request
	// with that decision.
	static Trace child_of(const char *name, const Endpoint &endpoint,
			      const blkkin_context &parent) noexcept
	{
		if (parent.info.trace_id == 0 && parent.trace_id_high == 0) {
			Trace trace = root(name, endpoint);
			// A deferred decision is left to the sampler here.
			if (!(parent.flags & BLKKIN_DEFERRED))
				trace.flags = parent.flags;
			return trace;
		}
		Trace trace{name, &endpoint.in_c, parent};
		blkin_init_child_info(&trace.in_c, &parent.info, &endpoint.in_c, name);
		return trace;
	}

	// Continues the request of the header traceparent, or begins a request if the header is missing.
	static Trace receive(const char *name, const Endpoint &endpoint,
			     std::string_view traceparent) noexcept
	{
		const auto context = parse_traceparent(traceparent);
		return context ? child_of(name, endpoint, *context) : root(name, endpoint);
	}

	// Endpoints are borrowed, so temporaries are not accepted.
	static Trace root(const char *, const Endpoint &&) = delete;
	static Trace child_of(const char *, const Endpoint &&, const blkkin_context &) = delete;
	static Trace receive(const char *, const Endpoint &&, std::string_view) = delete;

	// Begin a child of this step, at the same endpoint or another one.
	Trace child(const char *name) const noexcept
	{
		Trace trace = *this;
		trace.in_c.name = name;
		if (*this) {
			trace.in_c.info.parent_span_id = in_c.info.span_id;
			trace.in_c.info.span_id = blkkin_new_id();
		}
		return trace;
	}

	Trace child(const char *name, const Endpoint &endpoint) const noexcept
	{
		Trace trace = child(name);
		trace.in_c.endpoint = &endpoint.in_c;
		return trace;
	}

	Trace child(const char *, const Endpoint &&) const = delete;

	// True if this belongs to a request, sampled or not.
	explicit operator bool() const noexcept
	{
		return in_c.info.span_id != 0;
	}

	bool sampled() const noexcept
	{
		return flags & BLKKIN_SAMPLED;
	}

	// Records an event with the current time.
	void event(const char *event, Level level = Level::warning) const noexcept
	{
		if (records(level))
			(blkkin_event)(&in_c, nullptr, static_cast<blkkin_level>(level), event);
	}

	void event(const std::string &event, Level level = Level::warning) const noexcept
	{
		this->event(event.c_str(), level);
	}

	// Records a key and its value: a string, or any integer.
	void keyval(const char *key, const char *val, Level level = Level::warning) const noexcept
	{
		if (records(level))
			(blkkin_keyval_string)(&in_c, nullptr, static_cast<blkkin_level>(level), key,
					     val);
	}

	void keyval(const char *key, const std::string &val,
		    Level level = Level::warning) const noexcept
	{
		keyval(key, val.c_str(), level);
	}

	template <typename Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
	void keyval(const char *key, Integer val, Level level = Level::warning) const noexcept
	{
		if (records(level))
			(blkkin_keyval_integer)(&in_c, nullptr, static_cast<blkkin_level>(level), key,
					      static_cast<std::int64_t>(val));
	}

	// Returns the context that travels with the request.
	blkkin_context context() const noexcept
	{
		return {in_c.info, trace_id_high, flags};
	}

	// Makes this the thread's current span, for observers outside of the program, as long as the
	// result lives: `const auto entered = write.enter();`
	EnteredSpan enter() const & noexcept
	{
		return EnteredSpan{context()};
	}

	EnteredSpan enter() const && = delete;

	const blkin_trace_info &info() const noexcept
	{
		return in_c.info;
	}

	Traceparent traceparent() const noexcept
	{
		return header<Traceparent>(blkkin_traceparent_format);
	}

	B3 b3() const noexcept
	{
		return header<B3>(blkkin_b3_format);
	}

	// Returns the trace for C functions.
	const blkin_trace *c_trace() const noexcept
	{
		return &in_c;
	}

private:
	template <typename Text>
	Text header(int (*format)(const blkkin_context *, char *, std::size_t)) const noexcept
	{
		Text text;
		if (!*this)
			return text;
		const blkkin_context context = this->context();
		const int length = format(&context, text.bytes, sizeof text.bytes);
		text.used = length < 0 ? 0 : static_cast<std::size_t>(length);
		return text;
	}
};

// A timed step: it starts with its construction, and ends with its scope or with end(), whichever
// is first. It has one owner, so it can be moved but not copied; children, events and headers are
// inherited from Trace.
class Span : public Trace {
	Level own_level = Level::warning;

public:
	Span() noexcept = default;

	explicit Span(const Trace &trace, Level level = Level::warning) noexcept
	    : Trace{trace}, own_level{level}
	{
		if (trace)
			event(span_started, level);
	}

	Span(const Span &) = delete;
	Span &operator=(const Span &) = delete;

	Span(Span &&other) noexcept : Trace{other.release()}, own_level{other.own_level}
	{
	}

	Span &operator=(Span &&other) noexcept
	{
		if (this != &other) {
			end();
			own_level = other.own_level;
			Trace::operator=(other.release());
		}
		return *this;
	}

	~Span()
	{
		end();
	}

	void end() noexcept
	{
		const Trace trace = release();
		if (trace)
			trace.event(span_ended, own_level);
	}

	// Returns the step without recording its end, which the caller must record.
	Trace release() noexcept
	{
		return std::exchange(static_cast<Trace &>(*this), Trace{});
	}
};

} // namespace blkkin

#endif
