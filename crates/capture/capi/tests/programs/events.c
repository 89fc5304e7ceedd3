/* Records events with fields of its own, at the start and for each line of input. Each time it
 * prints how often an argument was evaluated so far. Compiles as C and as C++. */
#include <blkkin.h>
#include <stdio.h>
#include <string.h>

static const struct blkkin_label states[] = {{"idle", 0}, {"busy", 7}, {"broken", -1}};

static int evaluated;

static int count_up(void)
{
	return ++evaluated;
}

/* Each event type has the source line of its BLKKIN_EVENT. */
static void record_all(void)
{
	static const int32_t offsets[] = {-1, 2, 3};
	static const double ratios[] = {0.5, 0.25};
	const char *path = "/dev/vda";

	BLKKIN_EVENT(osd, none, BLKKIN_INFO);
	BLKKIN_EVENT(osd, write, BLKKIN_INFO, (int, count, count_up()), (string, path, path));
	BLKKIN_EVENT("my.app", "quoted name", BLKKIN_ERR, (int, count, 1));
	BLKKIN_EVENT(osd, many, BLKKIN_DEBUG, (int8, a, -8), (uint8, b, 8), (int16, c, -16),
		     (uint16, d, 16), (int32, e, -32), (uint32, f, 32), (int64, g, -64),
		     (uint64, h, 64), (hex32, i, 0xffu), (float, j, 1.5f), (double, k, -2.5),
		     (bool, l, 1), (size, m, strlen(path)), (text, n, path, 4), (long, o, -1L),
		     (string, p, NULL));
	BLKKIN_EVENT(osd, arrays, BLKKIN_INFO, (enum, state, 7, states),
		     (array, offsets, int32, offsets, 3), (sequence, ratios, double, ratios, 2),
		     (bytes, raw, path, 3), (sequence, nothing, int, NULL, 5), (int, last, 9));
}

int main(void)
{
	char line[16];

	blkin_init();
	record_all();
	printf("%d\n", evaluated);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		record_all();
		printf("%d\n", evaluated);
		fflush(stdout);
	}
	return 0;
}
