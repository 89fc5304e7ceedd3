/* Program with functions and USDT probes, for `user_probes.rs`. It waits for a line, runs the probes
   from two threads, and prints the semaphore and the processor time in nanoseconds. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern unsigned short target_typed_semaphore;
unsigned short target_typed_semaphore __attribute__((section(".probes")));

/* Note of a probe, as SystemTap's macros make it. */
#define NOTE(name, semaphore, arguments)                                                           \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                   \
    ".balign 4\n"                                                                                  \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b, 0, " semaphore "\n"                                                         \
    ".asciz \"target\"\n"                                                                          \
    ".asciz \"" name "\"\n"                                                                        \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"

long target_variable = -77;

__attribute__((noinline)) long target_add(long one, long other)
{
    __asm__ volatile("" ::: "memory");
    return one + other;
}

__attribute__((noinline)) long target_multiply(long one, long other)
{
    __asm__ volatile("" ::: "memory");
    return one * other;
}

/* Values of each size, in registers and in memory, and one at an address without memory. */
__attribute__((noinline)) void typed(long number, const int *array, long index, const long *nowhere)
{
    __asm__ volatile(NOTE("typed", "target_typed_semaphore",
                          "-1@%%dil 1@%%dil -2@%%di -4@%%edi 8@%%rdi -8@%%dil -4@4(%%rsi,%%rdx,4) "
                          "2@8(%%rsi) -8@target_variable(%%rip) -4@$-5 8f@%%xmm0 8@(%%rcx)")
                     :
                     : "D"(number), "S"(array), "d"(index), "c"(nowhere)
                     : "memory");
}

__attribute__((noinline)) void plain(void)
{
    __asm__ volatile(NOTE("plain", "0", ""));
}

/* An instruction that no program may execute. */
__asm__(".type invalid_code,@function\n"
        "invalid_code: .byte 0x06, 0x06, 0x06, 0x06\n"
        ".size invalid_code, 4\n");

static long count;

static void *run(void *unused)
{
    static const int array[] = {10, 20, 0x12345, -40};
    for (long index = 0; index < count; index++) {
        target_multiply(target_add(index, 1000), -3);
        typed(-2 - (index << 32), array, 2, (const long *)8);
        plain();
    }
    return unused;
}

static void print_state(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    printf("%d %lld\n", *(volatile unsigned short *)&target_typed_semaphore,
           used.tv_sec * 1000000000LL + used.tv_nsec);
    fflush(stdout);
}

int main(int argument_count, char **arguments)
{
    pthread_t threads[2];
    int character;
    count = argument_count > 1 ? atol(arguments[1]) : 0;
    print_state();
    while ((character = getchar()) != EOF) {
        if (character == 'r') {
            for (int index = 0; index < 2; index++)
                pthread_create(&threads[index], 0, run, 0);
            for (int index = 0; index < 2; index++)
                pthread_join(threads[index], 0);
        }
        if (character == '\n')
            print_state();
    }
    return 0;
}
