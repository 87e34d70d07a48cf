// siglongjmp out of handlers, five thousand times, restores the mask each time: sigsetjmp(3).
// krun: static musl
#include "guest.h"
static sigjmp_buf env;
static void h(int s) { siglongjmp(env, 1); }
int main(int argc, char **argv) {
    volatile int jumps = 0, n = scaled(5000);
    on(SIGUSR1, h, 0), on(SIGSEGV, h, 0);
    for (volatile int i = 0; i < n; i++) {
        if (sigsetjmp(env, 1))
            jumps++;
        else if (i & 1)
            raise(SIGUSR1);
        else
            *(volatile int *)8 = 1;
    }
    sigset_t m;
    sigprocmask(0, NULL, &m);
    EXPECT(jumps == n);
    say("blocked %d", sigismember(&m, SIGUSR1) + sigismember(&m, SIGSEGV));
    return wrong;
}
