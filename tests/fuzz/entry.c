// The program's first instructions, before the libc starts.  What the fuzzer executes only to see where it runs
// ends here: the libc ends a program whose start fails with 127, which is the monitor's own status, and a
// program header of the hostile file that names this program as its interpreter (a PT_TLS with a huge
// alignment) or a small RLIMIT_DATA makes it fail.
#include "fuzz.h"

__asm__(".globl fuzz_entry\n"
        "fuzz_entry:\n"
        "       mov %rsp, %rdi\n"
        "       mov %rdx, %rbx\n" // for _start
        "       call before_libc\n"
        "       mov %rbx, %rdx\n"
        "       jmp _start\n");

// No function of the libc works yet.
static int equal(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

// stack: argc, argv.  Returns in the first process and in a walk from outside.  All others end, whatever
// words they got: argv changes while it is copied.
__attribute__((used, no_stack_protector)) void before_libc(const u64 *stack) {
    const char *role = stack[0] > 1 ? (const char *)stack[2] : "";
    check_native();
    if (equal(role, "probe") || (RAW(SYS_getpid) != 1 && !equal(role, "walk")))
        quit(0);
}
