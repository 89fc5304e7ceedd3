// BlkKin's own C++: traces as values, spans that end with their scope, headers in and out.
#include <blkkin.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "listener.h"

using blkkin::Endpoint;
using blkkin::Level;
using blkkin::Span;
using blkkin::Trace;

// The header must not allocate.
static bool allocations_counted = false;
static int allocations = 0;

void *operator new(std::size_t size)
{
	allocations += allocations_counted;
	if (void *room = std::malloc(size))
		return room;
	std::abort();
}

void operator delete(void *room) noexcept
{
	std::free(room);
}

void operator delete(void *room, std::size_t) noexcept
{
	std::free(room);
}

static const Endpoint osd{"osd.3", "10.0.0.7", 50000};
static const Endpoint store{"store"};

static_assert(std::is_trivially_copyable_v<Trace>);
static_assert(!std::is_move_constructible_v<blkkin::EnteredSpan>);
static_assert(!std::is_copy_constructible_v<Span> && !std::is_copy_assignable_v<Span>);
static_assert(std::is_nothrow_move_constructible_v<Span>);
static_assert(std::is_nothrow_move_assignable_v<Span>);

static int evaluated = 0;

static Span make(const Trace &parent, const char *name)
{
	return Span{parent.child(name)};
}

static void nest(std::string_view header)
{
	Span request{Trace::receive("client io", osd, header), Level::info};
	request.event(blkkin::server_recv);
	{
		Span write{request.child("write", store)};
		write.keyval("bytes", 4096);
		write.keyval("offset", std::size_t{1} << 40);
		write.keyval("direct", true);
		write.keyval("object", "rb.1", Level::debug);
		Span moved = std::move(write);
		moved.event("moved");
		write.event("unheard");
	}
	Span again = make(request, "first");
	again = make(request, "second");
	again.end();
	again.end();
	const Trace handed = make(request, "handed over").release();
	std::thread([handed] { handed.event(blkkin::span_ended); }).join();
}

int main()
{
	const std::string text = "a string that does not fit where strings keep short ones";

	nest("");
	listen_to(0x7fff);
	allocations_counted = true;
	{
		Span request{Trace::root("request", osd)};
		const auto entered = request.enter();
		request.keyval("string", text);
		request.event(text, Level::notice);
		if (request.traceparent().empty() || request.b3().empty())
			return 1;
	}
	allocations_counted = false;
	std::printf("allocations: %d\n", allocations);
	nest("");

	// A trace that is not sampled, or belongs to no request, records nothing. The decision
	// is passed on.
	const auto denied =
		blkkin::parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
	if (!denied)
		return 1;
	Span quiet{Trace::child_of("quiet", osd, *denied)};
	quiet.event("unheard");
	quiet.child("unheard").keyval("unheard", ++evaluated);
	const auto sent = quiet.child("sent").context();
	std::printf("denied: %d %d, %lx %lx\n", bool(quiet), quiet.sampled(),
		    static_cast<unsigned long>(sent.trace_id_high),
		    static_cast<unsigned long>(sent.info.trace_id));
	std::printf("from its parent: %d, no other: %d\n",
		    sent.info.parent_span_id == quiet.info().span_id,
		    quiet.info().parent_span_id == 0x00f067aa0ba902b7);
	const std::string_view sent_header = quiet.traceparent();
	std::printf("%.36s %zu\n", quiet.traceparent().c_str(), sent_header.size());

	const Trace nothing;
	nothing.event("unheard");
	nothing.child("unheard").event("unheard");
	Span{nothing}.event("unheard");
	std::printf("nothing: %d, headers: %d %d\n", bool(nothing), !nothing.traceparent().empty(),
		    !nothing.b3().empty());
	std::printf("broken: %d %d\n", bool(blkkin::parse_traceparent("00-")),
		    bool(blkkin::parse_b3({})));

	// A context with only a decision begins a request with that decision.
	const Trace decided = Trace::child_of("decided", osd, *blkkin::parse_b3("d"));
	decided.event("debug");
	const std::string b3 = decided.child("child").b3().c_str();
	std::printf("%d %c %d\n", bool(decided), b3[50], decided.context().trace_id_high != 0);

	// Levels, and the C functions.
	listen_to(1 << BLKKIN_INFO | 1 << BLKKIN_ALERT);
	std::printf("enabled: %d %d %d\n", blkkin::enabled(), blkkin::enabled(Level::info),
		    blkkin::enabled(Level::debug));
	decided.event("unheard", Level::debug);
	decided.event("heard", Level::info);
	blkkin_event(decided.c_trace(), nullptr, BLKKIN_ALERT, "heard by itself");
	return 0;
}
