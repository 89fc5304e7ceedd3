/* The macros of blkin and of BlkKin: their forms, and how often they evaluate their arguments.
 * The statements are written as ganesha, fio and others write them. */
#include <blkin/zipkin_c.h>

#include <stdio.h>

#include "listener.h"

static int count;

static int counted(int value)
{
	count++;
	return value;
}

static const char *named(const char *name)
{
	count++;
	return name;
}

struct request {
	struct blkin_trace trace;
	struct blkin_endpoint endpoint;
};

static void old(struct request *r)
{
	BLKIN_TIMESTAMP(&r->trace, &r->endpoint, named("pre-op"))
	BLKIN_TIMESTAMP(&r->trace, NULL, named("post-op"));
	BLKIN_KEYVAL_STRING(&r->trace, &r->endpoint, named("op"), named("lookup"));
	BLKIN_KEYVAL_INTEGER(&r->trace, &r->endpoint, named("ops"), counted(3));
	BLKIN_KEYVAL(&r->trace, &r->endpoint, named("first"), named("generation"))
	if (r != NULL)
		BLKIN_TIMESTAMP(&r->trace, &r->endpoint, named("end"))
}

static void new_ones(struct request *r)
{
	if (r->trace.name)
		BLKKIN_EVENT(&r->trace, NULL, BLKKIN_INFO, named("begin"));
	else
		BLKKIN_EVENT(&r->trace, NULL, BLKKIN_CRIT, named("never"));
	BLKKIN_KEYVAL_STRING(&r->trace, NULL, BLKKIN_DEBUG, named("key"), named("val"));
	BLKKIN_KEYVAL_INTEGER(&r->trace, &r->endpoint, BLKKIN_EMERG, named("size"), counted(-4096));
	BLKKIN_EVENT(&r->trace, NULL, (blkkin_level)15, named("no level"));
	BLKKIN_EVENT(&r->trace, NULL, (blkkin_level)31, named("no level"));
}

static void all(const char *title, int levels, struct request *r)
{
	listen_to(levels);
	printf("%s: enabled %d, debug %d\n", title, blkkin_enabled(),
	       blkkin_enabled_at(BLKKIN_DEBUG));
	count = 0;
	old(r);
	printf("evaluated %d\n", count);
	count = 0;
	new_ones(r);
	printf("evaluated %d\n", count);
}

int main(void)
{
	struct request r;
	struct blkin_endpoint elsewhere;

	if (blkin_init() < 0)
		return 1;
	blkin_init_endpoint(&r.endpoint, "0.0.0.0", 50000, "nfs");
	blkin_init_endpoint(&elsewhere, "10.0.0.1", 1, "elsewhere");
	blkin_init_new_trace(&r.trace, "nfs4_op", &elsewhere);
	all("nobody", 0, &r);
	all("everything", 0x7fff, &r);
	all("info", 1 << BLKKIN_INFO, &r);
	return 0;
}
