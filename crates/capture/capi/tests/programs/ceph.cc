// Trace and Endpoint in the ways in which Ceph uses them, from luminous to pacific.
#include <cstddef>
#include <cstdint>

// Forward declarations like those of Ceph's headers that only pass these types on.
struct blkin_trace_info;
namespace ZTracer {
class Trace;
}
static bool is_traced(const blkin_trace_info *info);
static void pass(const ZTracer::Trace &trace);

#include <ztracer.hpp>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "listener.h"

// Ceph defines encode and decode at global scope.
static void encode(const blkin_trace_info &info, std::vector<int64_t> &out)
{
	out = {info.trace_id, info.span_id, info.parent_span_id};
}

static void decode(blkin_trace_info &info, const std::vector<int64_t> &in)
{
	info.trace_id = in[0];
	info.span_id = in[1];
	info.parent_span_id = in[2];
}

static bool is_traced(const blkin_trace_info *info)
{
	return info && info->trace_id;
}

static void pass(const ZTracer::Trace &trace)
{
	trace.event("passed");
}

struct shard_id_t {
	int8_t id;
	operator int8_t() const
	{
		return id;
	}
};

struct Message {
	ZTracer::Trace trace;
	std::vector<int64_t> wire;

	void encode_trace()
	{
		blkin_trace_info info = {0, 0, 0};
		const auto p = trace.get_info();
		if (p)
			info = *p;
		encode(info, wire);
	}

	void decode_trace(ZTracer::Endpoint *ep, const char *name, bool create = false)
	{
		blkin_trace_info info = {};
		decode(info, wire);
		if (info.trace_id)
			trace.init(name, ep, &info, true);
		else if (create)
			trace.init(name, ep);
	}
};

class OSD {
	ZTracer::Endpoint trace_endpoint;
	ZTracer::Endpoint store_endpoint{"0.0.0.0", 0, "BlueStore"};

public:
	OSD() : trace_endpoint("0.0.0.0", 0, "")
	{
		char ip[] = "10.0.0.7";
		trace_endpoint.copy_name(std::string("osd.") + std::to_string(3));
		trace_endpoint.copy_ip(ip);
		trace_endpoint.set_port(50000);
	}

	const ZTracer::Endpoint *endpoint() const
	{
		return &trace_endpoint;
	}

	void serve(Message &m, ZTracer::Trace *parent = nullptr)
	{
		m.decode_trace(&trace_endpoint, "OSD Request", true);
		m.trace.event("queued for pg");
		m.trace.keyval("tid", uint64_t(7));
		m.trace.keyval("size", size_t(4096));
		m.trace.keyval("shard", shard_id_t{2});
		m.trace.keyval("flags", 1u);
		m.trace.keyval("object", std::string("rb.1").c_str());

		ZTracer::Trace transaction;
		transaction.init("TransContext", &store_endpoint, &m.trace);
		if (transaction)
			transaction.event("commit", &trace_endpoint);
		ZTracer::Trace same_place("op", nullptr, &m.trace);
		pass(same_place);
		pass(ZTracer::Trace("temporary", &trace_endpoint, parent));
	}
};

static ZTracer::Trace by_value(const char *name, const ZTracer::Endpoint *ep,
			       const ZTracer::Trace *parent)
{
	return ZTracer::Trace(name, ep, parent);
}

static void names()
{
	const ZTracer::Endpoint client("client");
	const blkin_trace_info info = {21, 22, 23};

	// The name passed to init is recorded; without one, a name that was copied before stays.
	// Copies do not point into their originals.
	ZTracer::Trace copy;
	{
		ZTracer::Trace given, kept;
		std::printf("init: %d\n", given.init("given", &client, &info));
		given.event("name");
		kept.copy_name(std::string("a name that is too long to be kept in place"));
		std::printf("init: %d\n", kept.init("", &client, &info));
		kept.event("name");
		copy = kept;
		kept.copy_name("overwritten in the place where it was before, as is seen");
	}
	copy.event("copy");
	const ZTracer::Trace moved(std::move(copy));
	moved.event("moved");

	ZTracer::Trace none;
	std::printf("no endpoint: %d\n", none.init("x", nullptr, &info));
	std::printf("no endpoint: %d\n", none.init("x", nullptr, &info, true));
	std::printf("valid: %d\n", none.valid());
	std::printf("endpoint: %d\n", none.init("x", &client, &info, true));
	std::printf("valid: %d\n", none.valid());

	ZTracer::Endpoint owner("owner"), sharer("sharer"), copier("copier");
	owner.copy_ip("192.168.0.1");
	owner.set_port(40000);
	sharer.share_address_from(&owner);
	copier.copy_address_from(&owner);
	const ZTracer::Endpoint copied(copier);
	copier = sharer;
	ZTracer::Trace(moved).event("shared", &sharer);
	moved.event("copied", &copied);
	moved.keyval("assigned", "string", &copier);
	moved.keyval("assigned", 5, &copier);
	moved.event("own", nullptr);
}

int main()
{
	std::printf("%zu %zu\n", sizeof(ZTracer::Endpoint), sizeof(ZTracer::Trace));
	listen_to(0x7fff);
	if (ZTracer::ztrace_init() < 0)
		return 1;

	// Without ids nothing is recorded, and children are roots.
	const ZTracer::Trace invalid;
	std::printf("invalid: %d %d %d\n", invalid.valid(), bool(invalid),
		    is_traced(invalid.get_info()));
	invalid.event("unheard");
	invalid.keyval("unheard", "unheard");

	OSD osd;
	Message request, reply, untraced;
	const ZTracer::Endpoint client("client");
	ZTracer::Trace root = by_value("client io", &client, &invalid);
	root.event("start");
	request.trace.init("sent", &client, &root);
	request.encode_trace();
	Message received;
	received.wire = request.wire;
	osd.serve(received, &root);
	reply.trace = received.trace;
	reply.trace.event("reply");
	untraced.encode_trace();
	untraced.decode_trace(nullptr, "untraced");
	std::printf("untraced: %d\n", untraced.trace.valid());
	const ZTracer::Trace outside("", nullptr, root.get_info());
	std::printf("same: %d\n", outside.get_info()->span_id == root.get_info()->span_id);
	ZTracer::Trace set;
	set.set_info(root.get_info());
	std::printf("set: %d\n", set.valid());
	names();
	return 0;
}
