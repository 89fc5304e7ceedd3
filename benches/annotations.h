/* Annotations of the benches. The strings of one event always have 32 characters in total; with five
 * terminators, a port of 4 bytes and three ids of 8 bytes, the payload is 65 bytes. The benches rely
 * on it. */
#ifndef BLKKIN_BENCH_ANNOTATIONS_H
#define BLKKIN_BENCH_ANNOTATIONS_H

struct annotation {
	const char *trace_name, *service, *ip, *key, *val;
	int port;
};

/* Four annotations, so that consecutive events differ. */
enum { ANNOTATIONS = 4 };

static const struct annotation annotations[ANNOTATIONS] = {
	{ "osd write", "osd.3", "10.0.0.7", "pool", "volume", 6802 },
	{ "osd read", "osd.11", "10.0.0.9", "object", "rb.1", 6804 },
	{ "client io", "qemu", "10.0.0.12", "size", "131072", 41532 },
	{ "pg queue", "osd.3", "10.0.0.7", "queued", "12.1f", 6802 },
};

#endif
