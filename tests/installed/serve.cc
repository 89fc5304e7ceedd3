// A C++17 program that uses BlkKin's header and blkin's; it prints the number of events that it records.
#include <blkkin.hpp>
#include <ztracer.hpp>

#include <cstdio>

static const blkkin::Endpoint osd{"osd.3", "10.0.0.7", 6802};

int main()
{
	int events = 0;

	if (ZTracer::ztrace_init() < 0)
		return 1;
	const ZTracer::Endpoint client("10.0.0.1", 50000, "client");
	for (int round = 0; round < 100; round++) {
		ZTracer::Trace old("client io", &client);
		old.event("start");
		old.keyval("length", 4096);
		blkkin::Span request{blkkin::Trace::root("request", osd)};
		request.keyval("object", "rb.1");
		request.event(blkkin::server_recv);
		request.end();
		// A span has two events of its own, and one for a trace id of 128 bits.
		events += 2 + 5;
	}
	std::printf("%d\n", events);
	return 0;
}
