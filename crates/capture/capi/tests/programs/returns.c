/* Return values and results of each function of blkin, and offsets of the fields. */
#include <zipkin_c.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOW(call) printf("%s = %d\n", #call, call)
#define SIZE(type) printf("sizeof(%s) = %lu\n", #type, (unsigned long)sizeof(type))
#define FIELD(type, field) printf("%s.%s at %lu\n", #type, #field, (unsigned long)offsetof(type, field))

static void layouts(void)
{
	SIZE(struct blkin_endpoint);
	FIELD(struct blkin_endpoint, ip);
	FIELD(struct blkin_endpoint, port);
	FIELD(struct blkin_endpoint, name);
	SIZE(struct blkin_trace_info);
	FIELD(struct blkin_trace_info, trace_id);
	FIELD(struct blkin_trace_info, span_id);
	FIELD(struct blkin_trace_info, parent_span_id);
	SIZE(struct blkin_trace_info_packed);
	FIELD(struct blkin_trace_info_packed, parent_span_id);
	SIZE(struct blkin_trace);
	FIELD(struct blkin_trace, name);
	FIELD(struct blkin_trace, info);
	FIELD(struct blkin_trace, endpoint);
	FIELD(struct blkin_trace, trace_endpoint);
	SIZE(struct blkin_annotation);
	SIZE(blkin_annotation_type);
	FIELD(struct blkin_annotation, type);
	FIELD(struct blkin_annotation, key);
	FIELD(struct blkin_annotation, val_str);
	FIELD(struct blkin_annotation, val_int);
	FIELD(struct blkin_annotation, val);
	FIELD(struct blkin_annotation, endpoint);
	FIELD(struct blkin_annotation, annotation_endpoint);
	SIZE(struct blkkin_context);
	printf("types %d %d %d\n", ANNOT_STRING, ANNOT_INTEGER, ANNOT_TIMESTAMP);
}

static void words(void)
{
	printf("%s %s %s %s %s %s ", CLIENT_SEND, CLIENT_RECV, SERVER_SEND, SERVER_RECV, WIRE_SEND,
	       WIRE_RECV);
	printf("%s %s %s %s\n", CLIENT_SEND_FRAGMENT, CLIENT_RECV_FRAGMENT, SERVER_SEND_FRAGMENT,
	       SERVER_RECV_FRAGMENT);
}

static void endpoints(void)
{
	struct blkin_endpoint e;

	SHOW(blkin_init_endpoint(NULL, "1.2.3.4", 1, "x"));
	SHOW(blkin_init_endpoint(&e, NULL, 70000, NULL));
	printf("%s %d %d\n", e.ip, e.port, e.name == NULL);
	SHOW(blkin_init_endpoint(&e, "1.2.3.4", -1, "x"));
	printf("%s %d %s\n", e.ip, e.port, e.name);
}

static void traces(void)
{
	struct blkin_endpoint e;
	struct blkin_trace t, child, untouched, bare;
	struct blkin_trace_info info;

	blkin_init_endpoint(&e, "1.2.3.4", 5, "service");
	SHOW(blkin_init_new_trace(NULL, "t", &e));
	SHOW(blkin_init_new_trace(&bare, NULL, NULL));
	SHOW(blkin_init_new_trace(&t, "t", &e));
	printf("span is trace: %d, not 0: %d, parent %ld\n", t.info.span_id == t.info.trace_id,
	       t.info.trace_id != 0, (long)t.info.parent_span_id);
	blkin_init_trace_info(NULL);
	blkin_init_trace_info(&info);
	printf("span is trace: %d, not 0: %d, parent %ld\n", info.span_id == info.trace_id,
	       info.trace_id != 0, (long)info.parent_span_id);

	memset(&child, 7, sizeof(child));
	memset(&untouched, 7, sizeof(untouched));
	SHOW(blkin_init_child(NULL, &t, &e, "c"));
	SHOW(blkin_init_child(&child, NULL, &e, "c"));
	SHOW(blkin_init_child(&child, &bare, NULL, "c"));
	SHOW(blkin_init_child_info(NULL, &info, &e, "c"));
	SHOW(blkin_init_child_info(&child, NULL, &e, "c"));
	SHOW(blkin_init_child_info(&child, &info, NULL, "c"));
	printf("untouched: %d\n", memcmp(&child, &untouched, sizeof(child)) == 0);
	SHOW(blkin_init_child(&child, &t, NULL, NULL));
	printf("child: %d %d %d\n", child.name == NULL, child.endpoint == &e,
	       child.info.parent_span_id == t.info.span_id);
	memset(&info, 0, sizeof(info));
	SHOW(blkin_init_child_info(&child, &info, &e, "c"));
	printf("of trace 0: %ld %d\n", (long)child.info.trace_id, child.info.span_id != 0);
	child = t;
	SHOW(blkin_init_child(&child, &child, NULL, "own child"));
	printf("own child: %d %d\n", child.info.trace_id == t.info.trace_id,
	       child.info.parent_span_id == t.info.span_id);

	SHOW(blkin_get_trace_info(NULL, &info));
	SHOW(blkin_get_trace_info(&t, NULL));
	SHOW(blkin_get_trace_info(&t, &info));
	printf("same: %d\n", memcmp(&t.info, &info, sizeof(info)) == 0);
	info.trace_id = 11;
	info.span_id = 12;
	info.parent_span_id = 13;
	SHOW(blkin_set_trace_info(NULL, &info));
	SHOW(blkin_set_trace_info(&t, NULL));
	SHOW(blkin_set_trace_info(&t, &info));
	printf("%ld %ld %ld\n", (long)t.info.trace_id, (long)t.info.span_id,
	       (long)t.info.parent_span_id);
	SHOW(blkin_set_trace_properties(NULL, &info, "p", &e));
	SHOW(blkin_set_trace_properties(&bare, NULL, "p", &e));
	SHOW(blkin_set_trace_properties(&bare, &info, NULL, &e));
	SHOW(blkin_set_trace_properties(&bare, &info, "p", NULL));
	printf("untouched: %d\n", bare.name == NULL && bare.endpoint == NULL);
	SHOW(blkin_set_trace_properties(&bare, &info, "p", &e));
	printf("%s %s %ld\n", bare.name, bare.endpoint->name, (long)bare.info.span_id);
}

static void annotations(void)
{
	struct blkin_endpoint e, nameless, of_default_ip;
	struct blkin_trace t, unnamed, nowhere, zero;
	struct blkin_annotation a;

	blkin_init_endpoint(&e, "1.2.3.4", 5, "service");
	blkin_init_endpoint(&nameless, "1.2.3.4", 5, NULL);
	blkin_init_endpoint(&of_default_ip, NULL, 5, "service");
	blkin_init_new_trace(&t, "t", &e);
	blkin_init_new_trace(&unnamed, NULL, &e);
	blkin_init_new_trace(&nowhere, "nowhere", NULL);
	blkin_init_new_trace(&zero, "zero", &e);
	memset(&zero.info, 0, sizeof(zero.info));

	SHOW(blkin_init_string_annotation(NULL, "k", "v", &e));
	SHOW(blkin_init_string_annotation(&a, NULL, "v", &e));
	SHOW(blkin_init_string_annotation(&a, "k", NULL, &e));
	SHOW(blkin_init_integer_annotation(NULL, "k", 1, &e));
	SHOW(blkin_init_integer_annotation(&a, NULL, 1, &e));
	SHOW(blkin_init_timestamp_annotation(NULL, "e", &e));
	SHOW(blkin_init_timestamp_annotation(&a, NULL, &e));

	SHOW(blkin_init_string_annotation(&a, "k", "v", NULL));
	printf("%d %s %s %d\n", a.type, a.key, a.val_str, a.endpoint == NULL);
	SHOW(blkin_record(NULL, &a));
	SHOW(blkin_record(&t, NULL));
	SHOW(blkin_record(&t, &a));
	SHOW(blkin_record(&zero, &a));
	SHOW(blkin_record(&unnamed, &a));
	SHOW(blkin_record(&nowhere, &a));
	a.endpoint = &nameless;
	SHOW(blkin_record(&t, &a));
	a.endpoint = &of_default_ip;
	SHOW(blkin_record(&nowhere, &a));
	a.val_str = NULL;
	SHOW(blkin_record(&t, &a));
	a.val_str = "";
	SHOW(blkin_record(&t, &a));
	a.key = NULL;
	SHOW(blkin_record(&t, &a));

	SHOW(blkin_init_integer_annotation(&a, "k", -7, &e));
	printf("%d %s %ld %s\n", a.type, a.key, (long)a.val_int, a.endpoint->name);
	SHOW(blkin_record(&t, &a));
	a.key = NULL;
	SHOW(blkin_record(&t, &a));

	a.key = "left as it was";
	SHOW(blkin_init_timestamp_annotation(&a, "e", NULL));
	printf("%d %s %s\n", a.type, a.key, a.val_str);
	a.key = NULL;
	SHOW(blkin_record(&t, &a));
	a.type = (blkin_annotation_type)3;
	SHOW(blkin_record(&t, &a));
	a.val_str = NULL;
	SHOW(blkin_record(&t, &a));
}

static void packed(void)
{
	struct blkin_trace_info info, back;
	struct blkin_trace_info_packed wire;
	unsigned char bytes[sizeof(wire)];
	size_t i;

	info.trace_id = 1;
	info.span_id = -2;
	info.parent_span_id = 0x0123456789abcdefL;
	SHOW(blkin_pack_trace_info(NULL, &wire));
	SHOW(blkin_pack_trace_info(&info, NULL));
	SHOW(blkin_pack_trace_info(&info, &wire));
	memcpy(bytes, &wire, sizeof(wire));
	for (i = 0; i < sizeof(wire); i++)
		printf("%02x%s", bytes[i], i % 8 == 7 ? "\n" : "");
	SHOW(blkin_unpack_trace_info(NULL, &back));
	SHOW(blkin_unpack_trace_info(&wire, NULL));
	SHOW(blkin_unpack_trace_info(&wire, &back));
	printf("same: %d\n", memcmp(&back, &info, sizeof(info)) == 0);
}

int main(void)
{
	int second;

	srand(1);
	rand();
	second = rand();
	srand(1);
	rand();
	SHOW(blkin_init());
	SHOW(blkin_init());
	layouts();
	words();
	endpoints();
	traces();
	annotations();
	packed();
	printf("rand() is the program's: %d\n", rand() == second);
	return 0;
}
