/* A program written for blkin: `program ROUNDS` records ROUNDS requests with all functions of blkin, and
 * prints the number of events. lttng.c is the other library that it can be linked to. */
#include <zipkin_c.h>

#include <stdio.h>
#include <stdlib.h>

static int events;

/* Strings that readers of traces must handle. None is empty, because babeltrace2 2.0 may print the text
 * of an earlier event for it. */
static const char *const texts[] = {
	"plain", "gr\xc3\xb6\xc3\x9f" "e \"quoted\"", "line\nand\ttab", "back\\slash", "{ a = 1 }, b",
	"0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789",
};
static const int64_t numbers[] = { 0, 1, -1, 4096, INT64_MAX, INT64_MIN };

static void record(const struct blkin_trace *trace, struct blkin_annotation *annotation)
{
	if (blkin_record(trace, annotation) == 0)
		events++;
}

static void serve(const struct blkin_endpoint *client, const struct blkin_endpoint *osd, int round)
{
	const char *text = texts[(size_t)round % (sizeof(texts) / sizeof(*texts))];
	const int64_t number = numbers[(size_t)round % (sizeof(numbers) / sizeof(*numbers))];
	struct blkin_trace request, write;
	struct blkin_trace_info info;
	struct blkin_annotation annotation;

	blkin_init_new_trace(&request, "client io", client);
	BLKIN_TIMESTAMP(&request, client, "start")
	BLKIN_KEYVAL_STRING(&request, NULL, "object", text)
	BLKIN_KEYVAL_INTEGER(&request, client, "length", number)
	events += 3;

	/* As received with a message. */
	blkin_get_trace_info(&request, &info);
	blkin_init_child_info(&write, &info, osd, text);
	blkin_init_timestamp_annotation(&annotation, text, NULL);
	record(&write, &annotation);
	blkin_init_string_annotation(&annotation, "text", text, client);
	record(&write, &annotation);
	blkin_init_integer_annotation(&annotation, "number", number, osd);
	record(&write, &annotation);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 100;
	struct blkin_endpoint client, osd;
	int round;

	if (blkin_init() < 0 || blkin_init_endpoint(&client, "10.0.0.1", 50000, "client") < 0 ||
	    blkin_init_endpoint(&osd, NULL, -1, "osd.3") < 0)
		return 1;
	for (round = 0; round < rounds; round++)
		serve(&client, &osd, round);
	printf("%d\n", events);
	return 0;
}
