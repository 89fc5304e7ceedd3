/* A program for LTTng-UST to trace: `program ROUNDS` hits each tracepoint ROUNDS times, reports
 * it, and waits for a line, until the end of its input. */

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracepoints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hit_all(int64_t n)
{
    static const char *const texts[] = {
        "plain", "größe \"quoted\"", "line\nand\ttab", "back\\slash", "0123456789abcdef",
    };
    const char *text = texts[n % 5];
    const uint32_t values[] = { n, n + 1, n + 2, n + 3, n + 4 };

    lttng_ust_tracepoint(blkkin_sample, integers, n);
    lttng_ust_tracepoint(blkkin_sample, numbers, n * 0.5);
    /* Never 0: babeltrace2 2.0 may print the text of an earlier event for an empty one. */
    lttng_ust_tracepoint(blkkin_sample, texts, text, 1 + n % strlen(text));
    lttng_ust_tracepoint(blkkin_sample, lists, values, n % 6);
    lttng_ust_tracepoint(blkkin_sample, colors, n % 12);
    lttng_ust_tracepoint(blkkin_sample, bare);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int64_t n = 0;
    char line[16];

    do {
        for (int round = 0; round < rounds; round++)
            hit_all(n++);
        puts("done");
        fflush(stdout);
    } while (fgets(line, sizeof(line), stdin));
    return 0;
}
