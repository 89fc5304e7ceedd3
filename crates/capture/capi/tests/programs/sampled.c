/* For each line of input, begins 100 requests and 100 contexts, and prints how many of the contexts
 * are sampled. Each request has a child, and a grandchild made from the child's packed ids as in
 * another process. */
#include <blkkin.h>
#include <stdio.h>

static void child_elsewhere(const struct blkin_trace *parent, const struct blkin_endpoint *at)
{
	struct blkin_trace_info info;
	struct blkin_trace_info_packed packed;
	struct blkin_trace child;

	blkin_pack_trace_info(&parent->info, &packed);
	blkin_unpack_trace_info(&packed, &info);
	blkin_init_child_info(&child, &info, at, "elsewhere");
	BLKIN_TIMESTAMP(&child, at, "received");
}

int main(void)
{
	struct blkin_endpoint at;
	char line[16];

	blkin_init();
	blkin_init_endpoint(&at, "10.0.0.7", 6802, "osd.3");
	while (fgets(line, sizeof(line), stdin)) {
		int i, sampled = 0;

		for (i = 0; i < 100; i++) {
			struct blkin_trace root, child;
			struct blkkin_context context;

			blkin_init_new_trace(&root, "request", &at);
			blkin_init_child(&child, &root, NULL, "child");
			BLKIN_TIMESTAMP(&root, &at, "begun");
			BLKKIN_KEYVAL_INTEGER(&child, NULL, BLKKIN_INFO, "number", i);
			child_elsewhere(&child, &at);
			blkkin_context_init(&context);
			sampled += blkkin_sampled(&context);
			if (context.info.trace_id == 0 || context.info.span_id == 0)
				return 1;
		}
		printf("%d\n", sampled);
		fflush(stdout);
	}
	return 0;
}
