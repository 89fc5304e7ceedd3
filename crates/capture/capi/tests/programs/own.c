/* BlkKin's own functions in C: ids, levels, contexts in headers. */
#include <blkkin.h>

#include <stdio.h>
#include <string.h>

#define SHOW(call) printf("%s = %d\n", #call, call)

/* The inline function and the library's function must give the same result. */
#define SHOW_BOTH(name, arguments)                                         \
	(printf("%s%s = %d\n", #name, #arguments, name arguments),         \
	 (name) arguments == name arguments ? 0 : printf("not as the library\n"))

static void show(const char *header, int result, const struct blkkin_context *c)
{
	char out[BLKKIN_B3_SIZE];

	printf("[%s] = %d", header, result);
	if (result == 0) {
		printf(": %lx %lx %lx %lx flags %u sampled %d", (unsigned long)c->trace_id_high,
		       (unsigned long)c->info.trace_id, (unsigned long)c->info.span_id,
		       (unsigned long)c->info.parent_span_id, c->flags, blkkin_sampled(c));
		if (blkkin_traceparent_format(c, out, sizeof(out)) > 0)
			printf(" %s", out);
		if (blkkin_b3_format(c, out, sizeof(out)) > 0)
			printf(" %s", out);
	}
	printf("\n");
}

static void headers(void)
{
	static const char *const w3c[] = {
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		" \t00-0000000000000000a3ce929d0e0e4736-00f067aa0ba902b7-02\t ",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-more",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
		""
	};
	static const char *const b3[] = {
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90",
		"64fe8b2a57d3eff7-e457b5a2e4d86bd1",
		"0", "d", "-"
	};
	struct blkkin_context c;
	size_t i;

	for (i = 0; i < sizeof(w3c) / sizeof(*w3c); i++)
		show(w3c[i], blkkin_traceparent_parse(w3c[i], strlen(w3c[i]), &c), &c);
	for (i = 0; i < sizeof(b3) / sizeof(*b3); i++)
		show(b3[i], blkkin_b3_parse(b3[i], strlen(b3[i]), &c), &c);
	SHOW(blkkin_traceparent_parse(NULL, 0, &c));
	SHOW(blkkin_b3_parse("0", 1, NULL));
	SHOW(blkkin_b3_parse("0", (size_t)-1 / 2 + 1, &c));
}

static void rooms(void)
{
	struct blkkin_context c;
	char text[100];

	SHOW(blkkin_context_init(NULL));
	SHOW(blkkin_context_init(&c));
	printf("root: %d %d %d %d\n", c.info.trace_id == c.info.span_id,
	       c.info.parent_span_id == 0, c.trace_id_high != 0, blkkin_sampled(&c));
	printf("sampled without context: %d\n", blkkin_sampled(NULL));
	c.info.parent_span_id = 1;
	memset(text, '#', sizeof(text));
	SHOW(blkkin_traceparent_format(&c, text, BLKKIN_TRACEPARENT_SIZE - 1));
	SHOW(blkkin_b3_format(&c, text, BLKKIN_B3_SIZE - 1));
	SHOW(blkkin_b3_format(&c, text, 0));
	SHOW(blkkin_b3_format(&c, NULL, 100));
	SHOW(blkkin_traceparent_format(NULL, text, sizeof(text)));
	printf("untouched: %d\n", text[0] == '#');
	SHOW(blkkin_traceparent_format(&c, text, BLKKIN_TRACEPARENT_SIZE));
	printf("end: %d %d\n", text[55], text[56]);
	SHOW(blkkin_b3_format(&c, text, BLKKIN_B3_SIZE));
	printf("end: %d %d\n", text[68], text[69]);
	c.info.span_id = 0;
	SHOW(blkkin_traceparent_format(&c, text, sizeof(text)));
	SHOW(blkkin_b3_format(&c, text, sizeof(text)));
}

static void annotations(void)
{
	struct blkin_endpoint e, nameless;
	struct blkin_trace t, nowhere;

	blkin_init_endpoint(&e, "1.2.3.4", 5, "service");
	blkin_init_endpoint(&nameless, "1.2.3.4", 5, NULL);
	blkin_init_new_trace(&t, "t", &e);
	blkin_init_new_trace(&nowhere, "t", NULL);
	SHOW_BOTH(blkkin_event, (&t, NULL, BLKKIN_INFO, "event"));
	SHOW_BOTH(blkkin_event, (&t, &nameless, BLKKIN_INFO, "event"));
	SHOW_BOTH(blkkin_event, (&nowhere, NULL, BLKKIN_INFO, "event"));
	SHOW_BOTH(blkkin_event, (&nowhere, &e, BLKKIN_DEBUG, "event"));
	SHOW_BOTH(blkkin_event, (&t, NULL, BLKKIN_EMERG, NULL));
	SHOW_BOTH(blkkin_event, (NULL, &e, BLKKIN_EMERG, "event"));
	SHOW_BOTH(blkkin_event, (&t, NULL, (blkkin_level)15, "event"));
	SHOW_BOTH(blkkin_keyval_string, (&t, NULL, BLKKIN_ERR, "key", "val"));
	SHOW_BOTH(blkkin_keyval_string, (&t, NULL, BLKKIN_ERR, NULL, "val"));
	SHOW_BOTH(blkkin_keyval_string, (&t, NULL, BLKKIN_ERR, "key", NULL));
	SHOW_BOTH(blkkin_keyval_integer, (&t, NULL, BLKKIN_ERR, "key", 0));
	SHOW_BOTH(blkkin_keyval_integer, (&t, NULL, BLKKIN_ERR, NULL, 0));
	printf("nobody listens: %d %d\n", blkkin_enabled(), blkkin_enabled_at(BLKKIN_EMERG));
	printf("ids: %d\n", blkkin_new_id() != 0 && blkkin_new_id() != blkkin_new_id());
}

int main(void)
{
	headers();
	rooms();
	annotations();
	return 0;
}
