/* The API as the thesis lists it: structures with two k's, functions with an underscore. */
#include <blkkin.h>

#include <stdio.h>
#include <stdlib.h>

static void check(const char *what, int result)
{
	printf("%s: %d\n", what, result);
}

/* Returns the ids that a message with the trace `from` carries. */
static struct blkkin_trace_info receive(const struct blkkin_trace *from)
{
	struct blkkin_trace_info info;

	info.trace_id = from->info.trace_id;
	info.span_id = from->info.span_id;
	info.parent_span_id = from->info.parent_span_id;
	return info;
}

int main(void)
{
	char ip[] = "10.0.0.1", name[] = "service a", key[] = "key", val[] = "val";
	char root_name[] = "root", child_name[] = "child", event[] = "start";
	struct blkin_endpoint endpoint;
	struct blkkin_endpoint other;
	struct blkin_trace root, child, grandchild;
	struct blkin_annotation keyval, moment;
	struct blkkin_trace_info info;

	check("init", _blkin_init());
	endpoint.ip = ip;
	endpoint.port = 50000;
	endpoint.name = name;
	check("endpoint", _blkin_init_endpoint(&other, "10.0.0.2", 5001, "service b"));
	check("root", _blkin_init_new_trace(&root, root_name, &endpoint));
	check("child", _blkin_init_child(&child, &root, NULL, child_name));
	info = receive(&child);
	check("grandchild", _blkin_init_child_info(&grandchild, &info, &other, child_name));

	printf("root without parent: %d\n", root.info.parent_span_id == 0);
	printf("one trace: %d\n", root.info.trace_id == child.info.trace_id &&
				  child.info.trace_id == grandchild.info.trace_id);
	printf("parents: %d\n", child.info.parent_span_id == root.info.span_id &&
				grandchild.info.parent_span_id == child.info.span_id);
	printf("new spans: %d\n", child.info.span_id != root.info.span_id &&
				  grandchild.info.span_id != child.info.span_id);
	printf("endpoints: %d\n", child.trace_endpoint == &endpoint &&
				  grandchild.trace_endpoint == &other);

	check("string", _blkin_init_string_annotation(&keyval, key, val, &endpoint));
	printf("%s=%s at %s:%d\n", keyval.key, keyval.val, keyval.annotation_endpoint->name,
	       keyval.annotation_endpoint->port);
	check("timestamp", _blkin_init_timestamp_annotation(&moment, event, NULL));
	check("record", _blkin_record(&root, &keyval));
	check("record", _blkin_record(&child, &moment));
	check("record nothing", _blkin_record(&child, NULL));
	return 0;
}
