// The C++ API of blkin in all its generations, for programs that were written for it. New programs
// should use <blkkin.hpp>.
//
// From the latest to the first:
//   Endpoint, Trace                       values, which a program keeps in its own structures
//   ZTraceEndpoint::create, ZTrace::create   shared pointers, made by static members
//   create_ZTraceEndpoint, create_ZTrace     the same, made by free functions
//
// The shared pointers are std's. A program that names boost::shared_ptr instead of ZTraceRef
// defines BLKIN_BOOST before it includes this header; one that relies on the first generation's
// global `using std::string` and `using std::ostringstream` defines BLKIN_GLOBAL_STRING. All files
// of a program have to agree on BLKIN_BOOST. C++11 or later.
#ifndef ZTRACER_H
#define ZTRACER_H

#include <sstream>
#include <string>

#ifdef BLKIN_BOOST
#include <boost/smart_ptr.hpp>
#else
#include <memory>
#endif

#include "zipkin_c.h"

#ifdef BLKIN_GLOBAL_STRING
using std::ostringstream;
using std::string;
#endif

namespace ZTracer {

using std::string;
#ifdef BLKIN_BOOST
using boost::shared_ptr;
#else
using std::shared_ptr;
#endif

const char *const CLIENT_SEND = "cs";
const char *const CLIENT_RECV = "cr";
const char *const SERVER_SEND = "ss";
const char *const SERVER_RECV = "sr";
const char *const WIRE_SEND = "ws";
const char *const WIRE_RECV = "wr";
const char *const CLIENT_SEND_FRAGMENT = "csf";
const char *const CLIENT_RECV_FRAGMENT = "crf";
const char *const SERVER_SEND_FRAGMENT = "ssf";
const char *const SERVER_RECV_FRAGMENT = "srf";

inline int ztrace_init()
{
	return blkin_init();
}

class Trace;

// An endpoint. Strings are borrowed, unless one of the copy_ functions copied them.
class Endpoint : private blkin_endpoint {
	friend class Trace;

	string _ip;
	string _name;

	void assign(const Endpoint &other)
	{
		_ip = other._ip;
		_name = other._name;
		ip = other.ip == other._ip.c_str() ? _ip.c_str() : other.ip;
		port = other.port;
		name = other.name == other._name.c_str() ? _name.c_str() : other.name;
	}

public:
	Endpoint(const char *service) : blkin_endpoint(), _ip(), _name()
	{
		blkin_init_endpoint(this, "0.0.0.0", 0, service);
	}

	Endpoint(const char *address, int at_port, const char *service)
	    : blkin_endpoint(), _ip(), _name()
	{
		blkin_init_endpoint(this, address, at_port, service);
	}

	Endpoint(const Endpoint &other) : blkin_endpoint(), _ip(), _name()
	{
		assign(other);
	}

	const Endpoint &operator=(const Endpoint &other)
	{
		if (this != &other)
			assign(other);
		return *this;
	}

	void copy_ip(const string &new_ip)
	{
		_ip = new_ip;
		ip = _ip.c_str();
	}

	void copy_name(const string &new_name)
	{
		_name = new_name;
		name = _name.c_str();
	}

	void copy_address_from(const Endpoint *other)
	{
		copy_ip(other->ip);
		port = other->port;
	}

	void share_address_from(const Endpoint *other)
	{
		ip = other->ip;
		port = other->port;
	}

	void set_port(int new_port)
	{
		port = new_port;
	}
};

// A span: one step of a request. The name is borrowed, unless copy_name copied it. Copies have the
// same ids and are the same span. A trace without ids records nothing.
class Trace : private blkin_trace {
	string _name;

	void assign(const Trace &other)
	{
		_name = other._name;
		name = other.name == other._name.c_str() ? _name.c_str() : other.name;
		info = other.info;
		endpoint = other.endpoint;
	}

public:
	Trace() : blkin_trace(), _name()
	{
	}

	// Begins a child of `parent`, or a root if `parent` is NULL or has no ids. Children of an
	// unsampled request are unsampled, too.
	Trace(const char *span, const Endpoint *ep, const Trace *parent = nullptr)
	    : blkin_trace(), _name()
	{
		init(span, ep, parent);
	}

	// Begins a child of the span with the ids `i`, or continues that span, for which `ep` may be NULL.
	Trace(const char *span, const Endpoint *ep, const blkin_trace_info *i, bool child = false)
	    : blkin_trace(), _name()
	{
		if (child) {
			init(span, ep, i, true);
		} else {
			name = span;
			endpoint = ep;
			if (i)
				info = *i;
		}
	}

	Trace(const Trace &other) : blkin_trace(), _name()
	{
		assign(other);
	}

	const Trace &operator=(const Trace &other)
	{
		if (this != &other)
			assign(other);
		return *this;
	}

	bool valid() const
	{
		return info.trace_id != 0;
	}

	operator bool() const
	{
		return valid();
	}

	// Equivalents of the constructors that return the C functions' results.
	int init(const char *span, const Endpoint *ep, const Trace *parent = nullptr)
	{
		if (parent && (parent->valid() || !blkkin_followed(parent)))
			return blkin_init_child(this, parent, ep, span);
		return blkin_init_new_trace(this, span, ep);
	}

	// Without `child`, `ep` and `i` must not be NULL. A NULL or empty name keeps a name that copy_name
	// copied. (The original kept it for any argument, so a name passed here was never recorded.)
	int init(const char *span, const Endpoint *ep, const blkin_trace_info *i,
		 bool child = false)
	{
		if (child)
			return blkin_init_child_info(this, i, ep, span);
		const bool is_named = span && *span;
		return blkin_set_trace_properties(this, i, is_named ? span : _name.c_str(), ep);
	}

	void copy_name(const string &new_name)
	{
		_name = new_name;
		name = _name.c_str();
	}

	const blkin_trace_info *get_info() const
	{
		return &info;
	}

	void set_info(const blkin_trace_info *i)
	{
		info = *i;
	}

	void keyval(const char *key, const char *val) const
	{
		keyval(key, val, nullptr);
	}

	void keyval(const char *key, int64_t val) const
	{
		keyval(key, val, nullptr);
	}

	void keyval(const char *key, const char *val, const Endpoint *ep) const
	{
		if (valid())
			blkkin_string_(this, ep, key, val);
	}

	void keyval(const char *key, int64_t val, const Endpoint *ep) const
	{
		if (valid())
			blkkin_integer_(this, ep, key, val);
	}

	void event(const char *event) const
	{
		this->event(event, nullptr);
	}

	void event(const char *event, const Endpoint *ep) const
	{
		if (valid())
			blkkin_timestamp_(this, ep, event);
	}
};

class ZTraceEndpoint;
class ZTrace;
typedef shared_ptr<ZTraceEndpoint> ZTraceEndpointRef;
typedef shared_ptr<ZTrace> ZTraceRef;

// Return copies of strings, which the program must delete[], as in the first generations.
inline char *to_cstr(string &s)
{
	char *copy = new char[s.size() + 1];
	copy[s.copy(copy, s.size())] = '\0';
	return copy;
}

inline char *ostr_to_cstr(std::ostringstream &stream)
{
	string s = stream.str();
	return to_cstr(s);
}

// An endpoint that owns its strings.
class ZTraceEndpoint {
	friend class ZTrace;

	string _ip;
	int _port;
	string _name;

	blkin_endpoint in_c() const
	{
		blkin_endpoint endpoint;
		blkin_init_endpoint(&endpoint, _ip.c_str(), _port, _name.c_str());
		return endpoint;
	}

public:
	ZTraceEndpoint(const string &ip, int port, const string &name)
	    : _ip(ip), _port(port), _name(name)
	{
	}

	static ZTraceEndpointRef create(const string &ip, int port, const string &name)
	{
		return ZTraceEndpointRef(new ZTraceEndpoint(ip, port, name));
	}
};

// A span that owns its name and keeps its endpoint alive.
class ZTrace {
	string _name;
	blkin_trace_info _info;
	ZTraceEndpointRef _ep;

	// The structures for the C API. Their pointers point into the ZTrace, the ZTraceEndpoint and this
	// object.
	struct InC {
		blkin_endpoint endpoint;
		blkin_trace trace;

		InC(const ZTrace &t, const ZTraceEndpointRef &at) : endpoint(), trace()
		{
			trace.name = t._name.c_str();
			trace.info = t._info;
			if (at) {
				endpoint = at->in_c();
				trace.endpoint = &endpoint;
			}
		}
	};

	void begin_root()
	{
		blkin_init_trace_info(&_info);
	}

	// A child without an endpoint gets no ids.
	void begin_child(const blkin_trace_info &parent)
	{
		const InC c(*this, _ep);
		blkin_trace child = blkin_trace();
		blkin_init_child_info(&child, &parent, c.trace.endpoint, c.trace.name);
		_info = child.info;
	}

	void begin(const ZTraceRef &parent)
	{
		if (parent)
			begin_child(parent->_info);
		else
			begin_root();
	}

public:
	ZTrace(const string &name, ZTraceEndpointRef ep) : _name(name), _info(), _ep(ep)
	{
		begin_root();
	}

	// Begins a child of `t` at the endpoint of `t`, or a root without endpoint if `t` is NULL.
	ZTrace(const string &name, ZTraceRef t)
	    : _name(name), _info(), _ep(t ? t->_ep : ZTraceEndpointRef())
	{
		begin(t);
	}

	// Begins a child of `t`, or a root if `t` is NULL. A NULL `ep` means the endpoint of `t`.
	ZTrace(const string &name, ZTraceRef t, ZTraceEndpointRef ep)
	    : _name(name), _info(), _ep(ep || !t ? ep : t->_ep)
	{
		begin(t);
	}

	// Begins a child of the span with the ids `i`, or continues that span.
	ZTrace(const string &name, ZTraceEndpointRef ep, const struct blkin_trace_info *i,
	       bool child = false)
	    : _name(name), _info(), _ep(ep)
	{
		if (i && child)
			begin_child(*i);
		else if (i)
			_info = *i;
	}

	static ZTraceRef create(const string &name, ZTraceEndpointRef ep)
	{
		return ZTraceRef(new ZTrace(name, ep));
	}

	static ZTraceRef create(const string &name, ZTraceRef t)
	{
		return ZTraceRef(new ZTrace(name, t));
	}

	static ZTraceRef create(const string &name, ZTraceRef t, ZTraceEndpointRef ep)
	{
		return ZTraceRef(new ZTrace(name, t, ep));
	}

	static ZTraceRef create(const string &name, ZTraceEndpointRef ep,
				const struct blkin_trace_info *i, bool child = false)
	{
		return ZTraceRef(new ZTrace(name, ep, i, child));
	}

	ZTraceEndpointRef get_endpoint() const
	{
		return _ep;
	}

	int get_trace_info(struct blkin_trace_info *i) const
	{
		if (!i)
			return blkin_get_trace_info(nullptr, i);
		*i = _info;
		return 0;
	}

	int set_trace_info(const struct blkin_trace_info *i)
	{
		if (!i)
			return blkin_set_trace_info(nullptr, i);
		_info = *i;
		return 0;
	}

	// These functions take strings by reference, so that none is copied. They return 0, as in the
	// first generation.
	int keyval(const char *key, const char *val) const
	{
		return keyval(key, val, _ep);
	}

	int keyval(const string &key, const string &val) const
	{
		return keyval(key.c_str(), val.c_str(), _ep);
	}

	int keyval(const char *key, int64_t val) const
	{
		return keyval(key, val, _ep);
	}

	int keyval(const char *key, const char *val, const ZTraceEndpointRef &at) const
	{
		if (blkkin_enabled()) {
			const InC c(*this, at ? at : _ep);
			blkkin_string_(&c.trace, nullptr, key, val);
		}
		return 0;
	}

	int keyval(const string &key, const string &val, const ZTraceEndpointRef &at) const
	{
		return keyval(key.c_str(), val.c_str(), at);
	}

	int keyval(const char *key, int64_t val, const ZTraceEndpointRef &at) const
	{
		if (blkkin_enabled()) {
			const InC c(*this, at ? at : _ep);
			blkkin_integer_(&c.trace, nullptr, key, val);
		}
		return 0;
	}

	int event(const char *event) const
	{
		return this->event(event, _ep);
	}

	int event(const string &event) const
	{
		return this->event(event.c_str(), _ep);
	}

	int event(const char *event, const ZTraceEndpointRef &at) const
	{
		if (blkkin_enabled()) {
			const InC c(*this, at ? at : _ep);
			blkkin_timestamp_(&c.trace, nullptr, event);
		}
		return 0;
	}

	int event(const string &event, const ZTraceEndpointRef &at) const
	{
		return this->event(event.c_str(), at);
	}
};

inline ZTraceEndpointRef create_ZTraceEndpoint(const string &ip, int port, const string &name)
{
	return ZTraceEndpoint::create(ip, port, name);
}

inline ZTraceRef create_ZTrace(const string &name, ZTraceEndpointRef ep)
{
	return ZTrace::create(name, ep);
}

inline ZTraceRef create_ZTrace(const string &name, ZTraceRef t)
{
	return ZTrace::create(name, t);
}

inline ZTraceRef create_ZTrace(const string &name, ZTraceRef t, ZTraceEndpointRef ep)
{
	return ZTrace::create(name, t, ep);
}

inline ZTraceRef create_ZTrace(const string &name, ZTraceEndpointRef ep,
			       const struct blkin_trace_info *i, bool child = false)
{
	return ZTrace::create(name, ep, i, child);
}

} // namespace ZTracer

#endif
