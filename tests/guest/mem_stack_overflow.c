// Endless recursion ends with SIGSEGV, caught on the alternative stack; without one it kills: sigaltstack(2).
// krun: static
#include "guest.h"
static sigjmp_buf back;
static char *at, *first, stack[65536];
static int on_altstack, code;
static void handler(int sig, siginfo_t *info, void *context) {
    char here;
    on_altstack = &here >= stack && &here < stack + sizeof(stack);
    at = info->si_addr, code = info->si_code;
    siglongjmp(back, 1);
}
static NOINLINE int deep(int n) {
    volatile char room[4000];
    room[0] = n;
    return deep(n + 1) + room[0];
}
int main(int argc, char **argv) {
    char here;
    first = &here;
    stack_t s = {.ss_sp = stack, .ss_size = sizeof(stack)};
    MUST(sigaltstack(&s, NULL));
    on_info(SIGSEGV, handler, SA_ONSTACK);
    for (int i = 0; i < 2; i++) {
        if (!sigsetjmp(back, 1))
            say("%d", deep(0));
        say("on the alternative stack %d, depth about 8 MiB %d", on_altstack,
            first - at > 7 << 20 && first - at < 9 << 20);
    }
    reap("without alternative stack", CHILD({
             s.ss_flags = SS_DISABLE;
             sigaltstack(&s, NULL);
             deep(0);
         }));
    return 0;
}
