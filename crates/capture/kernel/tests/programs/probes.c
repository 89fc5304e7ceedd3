/* Program with USDT probes, for `programs.rs`: notes as SystemTap's macros make them. */

extern unsigned short example_with_arguments_semaphore;
unsigned short example_with_arguments_semaphore __attribute__((section(".probes")));

/* Note of a probe. The address of the base, in a section of its own, corrects addresses of
   prelinked files. */
#define NOTE(name, semaphore, arguments)                                                           \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                   \
    ".balign 4\n"                                                                                  \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                            \
    ".asciz \"example\"\n"                                                                         \
    ".asciz \"" name "\"\n"                                                                        \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                        \
    ".weak _.stapsdt.base\n"                                                                       \
    ".hidden _.stapsdt.base\n"                                                                     \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif\n"

long shared_variable = 5;

__attribute__((noinline)) int with_arguments(int number, long *pointer)
{
    __asm__ volatile(NOTE("with_arguments", "example_with_arguments_semaphore",
                          "-4@%[number] 8@%[memory] 2@%[constant] -8@shared_variable(%%rip)")
                     :
                     : [number] "r"(number), [memory] "m"(pointer[1]), [constant] "n"(7));
    return number + 1;
}

static __attribute__((noinline)) int hidden(int number)
{
    __asm__ volatile(NOTE("plain", "0", ""));
    __asm__ volatile(NOTE("plain", "0", ""));
    return number * 3;
}

int main(int count, char **words)
{
    long numbers[2] = {count, (long)words};
    return with_arguments(count, numbers) + hidden(count);
}
