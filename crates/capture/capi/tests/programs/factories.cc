// Shared pointers and factories of the first two generations, as Ceph's forks of that time and
// DistributedR use them: with the names of the pointers, or with boost's own.
#include <ztracer.hpp>

#include <cstdio>
#include <thread>

#include "listener.h"

using namespace ZTracer;

#ifdef BLKIN_BOOST
using Held = boost::shared_ptr<ZTrace>;
#else
using Held = std::shared_ptr<ZTrace>;
#endif
#ifdef BLKIN_GLOBAL_STRING
static_assert(sizeof(::string) > 0 && sizeof(::ostringstream) > 0, "both are global");
#endif

// In the first generation, free functions create endpoints and traces.
static void first()
{
	ZTraceEndpointRef here = create_ZTraceEndpoint(std::string("0.0.0.0"), 50000, "messenger");
	ZTraceEndpointRef there = create_ZTraceEndpoint("10.0.0.1", 1, "osd");
	ZTraceRef none;
	if (none != NULL || none)
		return;

	ZTraceRef master = create_ZTrace("master", here);
	Held child = create_ZTrace("child", master);
	ZTraceRef elsewhere = create_ZTrace(std::string("elsewhere"), child, there);
	struct blkin_trace_info info;
	std::printf("get: %d\n", elsewhere->get_trace_info(&info));
	ZTraceRef received = create_ZTrace("received", here, &info, true);
	ZTraceRef same = create_ZTrace("same", here, &info);

	std::ostringstream oss;
	char key[] = "key";
	oss << "value " << 5;
	std::printf("event: %d\n", master->event("start"));
	child->event(oss.str());
	elsewhere->event(key);
	elsewhere->event("other place", here);
	received->keyval(key, oss.str());
	std::printf("keyval: %d\n", received->keyval("key", "val", there));
	same->event("end");
	child->get_endpoint();
	std::printf("endpoint: %d\n", child->get_endpoint() == here);
	std::printf("set: %d\n", same->set_trace_info(&info));
	std::printf("refused: %d %d\n", same->set_trace_info(NULL), same->get_trace_info(NULL));

	char *copy = ostr_to_cstr(oss);
	std::printf("%s\n", copy);
	delete[] copy;
	std::string text = "text";
	copy = to_cstr(text);
	std::printf("%s\n", copy);
	delete[] copy;
}

// In the second generation, static members create them, and values may be integers.
static void second()
{
	ZTraceEndpointRef here = ZTraceEndpoint::create("0.0.0.0", 1, "parent");
	ZTraceRef parent = ZTrace::create("parent process", here);
	ZTraceRef child;
	std::thread other([&] {
		ZTraceEndpointRef there = ZTraceEndpoint::create("0.0.0.1", 2, "child");
		struct blkin_trace_info info;
		parent->get_trace_info(&info);
		child = ZTrace::create("Child process", there, &info, true);
		child->event("child start");
	});
	other.join();
	// The endpoint lives as long as its users.
	here.reset();
	parent->keyval("size", 4096);
	child->keyval("size", size_t(8192), parent->get_endpoint());
	child->keyval("string", "val");

	ZTraceRef moved = ZTrace::create("moved", child, parent->get_endpoint());
	moved->event("moved");
	ZTrace::create("as its parent", child, ZTraceEndpointRef())->event("no endpoint");
	parent->event("parent end");
}

// Objects without a shared pointer.
static void bare()
{
	struct blkin_trace_info info = {41, 42, 43};
	ZTraceEndpointRef here(new ZTraceEndpoint("1.1.1.1", 3, "worker"));
	ZTrace *trace = new ZTrace("task", here, &info, true);
	ZTrace copy = *trace;
	delete trace;
	copy.event("copied");
	ZTrace nowhere("nowhere", ZTraceEndpointRef());
	nowhere.event("root");
	ZTrace orphan("orphan", ZTraceRef(), here);
	orphan.event("root");
}

int main()
{
	listen_to(0x7fff);
	if (ztrace_init() < 0)
		return 1;
	first();
	second();
	bare();
	return 0;
}
