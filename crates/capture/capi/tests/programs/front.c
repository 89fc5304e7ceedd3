/* The first generation's C API, as Archipelago uses it: the ids of a request are unaligned in a
 * message. A forked process makes other ids than its parent. */
#define _POSIX_C_SOURCE 200809L

struct blkin_trace_info;
static int is_traced(const struct blkin_trace_info *info);

#include <blkin-front.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "listener.h"

struct message {
	char operation;
	/* Not aligned. */
	char ids[24];
};

static int is_traced(const struct blkin_trace_info *info)
{
	return info->trace_id != 0;
}

static void send(struct message *message, struct blkin_trace *trace)
{
	struct blkin_trace_info info;

	memset(message, 0, sizeof(*message));
	if (blkin_get_trace_info(trace, &info) == 0 && is_traced(&info))
		memcpy(message->ids, &info, sizeof(info));
}

static void serve(struct message *message)
{
	struct blkin_endpoint filed;
	struct blkin_trace trace = {.name = "filed"}, again = {.name = "again"};

	if (blkin_init_endpoint(&filed, "0.0.0.0", 2, "filed") < 0)
		_exit(1);
	blkin_init_child_info(&trace, (struct blkin_trace_info *)(void *)message->ids, &filed,
			      "write");
	BLKIN_TIMESTAMP(&trace, &filed, "start");
	again.trace_endpoint = &filed;
	blkin_set_trace_info(&again, &trace.info);
	BLKIN_TIMESTAMP(&again, again.trace_endpoint, "Span ended");
}

int main(void)
{
	struct blkin_endpoint vlmc;
	struct blkin_trace trace = {.name = "vlmc"};
	struct message message;
	struct blkin_trace_info here;
	int channel[2], status = 0;
	int64_t there = 0;
	pid_t child;

	listen_to(0x7fff);
	if (blkin_init() < 0)
		return 1;
	blkin_init_endpoint(&vlmc, "0.0.0.0", 1, "vlmc");
	blkin_init_new_trace(&trace, "request", &vlmc);
	BLKIN_TIMESTAMP(&trace, &vlmc, "start");
	send(&message, &trace);
	serve(&message);
	BLKIN_TIMESTAMP(&trace, &vlmc, "Span ended");
	fflush(stdout);

	/* A forked process makes ids of its own. */
	if (pipe(channel) < 0 || (child = fork()) < 0)
		return 1;
	if (child == 0) {
		blkin_init_trace_info(&here);
		_exit(write(channel[1], &here.trace_id, sizeof(here.trace_id)) !=
		      sizeof(here.trace_id));
	}
	blkin_init_trace_info(&here);
	if (read(channel[0], &there, sizeof(there)) != sizeof(there) ||
	    waitpid(child, &status, 0) != child)
		return 1;
	printf("child ended with %d, ids differ: %d\n", status, here.trace_id != there);
	return 0;
}
