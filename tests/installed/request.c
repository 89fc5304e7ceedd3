/* A C program that uses <blkkin.h>; it prints the number of events that it records. */
#include <blkkin.h>

#include <stdio.h>

int main(void)
{
	struct blkin_endpoint osd;
	struct blkin_trace request, write;
	int events = 0, round;

	blkin_init();
	blkin_init_endpoint(&osd, "10.0.0.7", 6802, "osd.3");
	for (round = 0; round < 100; round++) {
		blkin_init_new_trace(&request, "client io", &osd);
		events += blkkin_event(&request, NULL, BLKKIN_INFO, "received") == 0;
		blkin_init_child(&write, &request, NULL, "write");
		events += blkkin_keyval_integer(&write, NULL, BLKKIN_DEBUG, "bytes", 4096) == 0;
		events += blkkin_keyval_string(&write, &osd, BLKKIN_ERR, "object", "rb.1") == 0;
	}
	printf("%d\n", events);
	return 0;
}
