/* For each line of input, enters two nested spans, one of a request that is not sampled within them,
 * and one more after them; then prints "done". */
#include <blkkin.h>

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	const struct blkkin_context outer = {{1, 10, 0}, 2, BLKKIN_SAMPLED};
	const struct blkkin_context unsampled = {{1, 12, 0}, 2, 0};
	struct blkin_trace inner = {0}, other = {0};
	char line[16];

	inner.info.trace_id = 1;
	inner.info.span_id = 11;
	other.info.trace_id = -1;
	other.info.span_id = -2;
	while (fgets(line, sizeof(line), stdin)) {
		struct blkkin_entered in_outer, in_inner, in_unsampled, in_other;

		if (blkkin_context_enter(&in_outer, &outer) != 0 ||
		    blkkin_span_enter(&in_inner, &inner) != 0 ||
		    blkkin_context_enter(&in_unsampled, &unsampled) != 0)
			abort();
		if (blkkin_span_exit(&in_unsampled) != 0 || blkkin_span_exit(&in_inner) != 0 ||
		    blkkin_span_exit(&in_outer) != 0)
			abort();
		if (blkkin_span_enter(&in_other, &other) != 0 || blkkin_span_exit(&in_other) != 0)
			abort();
		puts("done");
		fflush(stdout);
	}
	return 0;
}
