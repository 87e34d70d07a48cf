// A process made with CLONE_SIGHAND dies of a fault: its relative's calls with bad pointers give EFAULT as
// before, and its signals have their actions: clone(2).
#include "guest.h"
#include <sched.h>

static char stack[65536] __attribute__((aligned(16)));
static int count;
static void counts(int sig) { count += sig == SIGUSR1; }
static int faults(void *address) {
    *(volatile int *)address = 1;
    return 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    on(SIGUSR1, counts, 0);
    for (int i = 0; i < 2; i++) {
        pid_t pid = MUST(clone(faults, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | SIGCHLD, (void *)8));
        reap("relative", pid);
        TRY(access((char *)8, F_OK));
        MUST(kill(getpid(), SIGUSR1));
    }
    say("signals %d", count);
    return 0;
}
