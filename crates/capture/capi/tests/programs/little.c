/* Records from a signal handler on an alternate stack of 8 KiB, with no accessible memory below it. For
 * each line of input it prints how much of the stack each kind of event took, and "done". Compiles as C
 * and as C++. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <blkkin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_SIZE 8192
#define GUARD_SIZE 65536
#define PAINT 0xa5
#define LONG_SIZE 100000

static const struct blkkin_label states[] = {{"idle", 0}, {"busy", 7}};

static char long_text[LONG_SIZE + 1], middle_text[401];
static struct blkin_endpoint endpoint;
static struct blkin_trace trace;
static unsigned char *stack;
static unsigned char *entry;
static const uint8_t octets[300] = {1, 2, 3};

static void annotation(void)
{
	blkkin_event(&trace, &endpoint, BLKKIN_WARNING, "happened");
	blkkin_keyval_string(&trace, &endpoint, BLKKIN_INFO, "key", middle_text);
	blkkin_keyval_integer(&trace, &endpoint, BLKKIN_INFO, "number", 7);
}

static void long_annotation(void)
{
	blkkin_event(&trace, &endpoint, BLKKIN_WARNING, long_text);
	blkkin_keyval_string(&trace, &endpoint, BLKKIN_INFO, long_text, long_text);
}

static void macro(void)
{
	BLKIN_KEYVAL_STRING(&trace, &endpoint, "key", long_text)
	BLKKIN_EVENT(&trace, &endpoint, BLKKIN_INFO, "from a macro");
}

static void small_event(void)
{
	BLKKIN_EVENT(stack, small, BLKKIN_INFO, (int, number, 7), (string, text, "text"));
}

static void long_event(void)
{
	BLKKIN_EVENT(stack, long, BLKKIN_INFO, (string, text, long_text), (int, number, 7),
		     (text, other, long_text, LONG_SIZE));
}

static void many_fields(void)
{
	BLKKIN_EVENT(stack, many, BLKKIN_INFO, (int, a, 1), (string, text, long_text), (int, c, 3),
		     (string, d, middle_text), (enum, e, 7, states), (double, f, 0.5),
		     (bytes, g, long_text, 300), (sequence, h, uint8, octets, 300),
		     (array, i, uint8, octets, 9), (string, j, long_text), (int, k, 1),
		     (int, l, 1), (int, m, 1), (int, n, 1), (string, o, "o"), (int, p, 1),
		     (string, q, long_text), (string, r, NULL), (int, s, 1), (int, t, 1));
}

static const struct {
	const char *name;
	void (*body)(void);
} kinds[] = {
	{"annotation", annotation},   {"long annotation", long_annotation},
	{"macro", macro},	      {"small event", small_event},
	{"long event", long_event},   {"event of many fields", many_fields},
};

static void (*volatile body)(void);

static void handle(int number)
{
	unsigned char here;

	(void)number;
	entry = &here;
	body();
}

static void measure(const char *name, void (*of)(void))
{
	unsigned char *painted = stack;

	memset(stack, PAINT, STACK_SIZE);
	body = of;
	raise(SIGUSR1);
	while (painted < entry && *painted == PAINT)
		painted++;
	printf("%s: %ld\n", name, (long)(entry - painted));
}

int main(void)
{
	char line[16];
	size_t kind;
	stack_t description;
	struct sigaction action;
	void *memory = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory, GUARD_SIZE, PROT_NONE) != 0)
		abort();
	stack = (unsigned char *)memory + GUARD_SIZE;
	memset(&description, 0, sizeof(description));
	description.ss_sp = stack;
	description.ss_size = STACK_SIZE;
	memset(&action, 0, sizeof(action));
	action.sa_handler = handle;
	action.sa_flags = SA_ONSTACK;
	if (sigaltstack(&description, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
		abort();
	memset(long_text, 'x', LONG_SIZE);
	memset(middle_text, 'm', sizeof(middle_text) - 1);
	endpoint.ip = "10.0.0.7";
	endpoint.port = 1;
	endpoint.name = "little";
	trace.name = middle_text;
	trace.info.trace_id = 1;
	trace.info.span_id = 2;
	trace.endpoint = &endpoint;
	blkkin_set_context("test:one", middle_text);
	while (fgets(line, sizeof(line), stdin)) {
		for (kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
			measure(kinds[kind].name, kinds[kind].body);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
