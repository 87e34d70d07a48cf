// A child that starts without handlers (CLONE_CLEAR_SIGHAND) changes nothing in its parent's status:
// clone3(2), proc(5).
#include "guest.h"
#include <linux/sched.h>
static void handler(int sig) {}
// The lines of SIGQUIT and SIGABRT in `caught` of process p.
static void caught(const char *when, pid_t p) {
    char path[40];
    sprintf(path, "/proc/%d/status", p);
    char *s = slurp(path), *line = s ? strstr(s, "SigCgt:") : NULL;
    say("%s %lx", when, line ? strtoul(line + 7, NULL, 16) & 0x24 : ~0UL);
}
int main(int argc, char **argv) {
    pid_t parent = getpid();
    int status;
    on(SIGQUIT, handler, 0), on(SIGABRT, handler, 0);
    caught("own", parent);
    for (int vm = 0; vm < 2; vm++) {
        struct clone_args a = {.flags = CLONE_CLEAR_SIGHAND | (vm ? CLONE_VM | CLONE_VFORK : 0),
                               .exit_signal = SIGCHLD};
        long p;
        reap("before", CHILD(caught("seen before", parent)));
        // Not syscall(3): with CLONE_VFORK the child would use its return address.
        __asm__ volatile("syscall"
                         : "=a"(p)
                         : "a"(SYS_clone3), "D"(&a), "S"(sizeof a)
                         : "rcx", "r11", "memory");
        if (!p)
            _exit(0);
        EXPECT(waitpid((pid_t)p, &status, 0) == p && !status);
        reap("after", CHILD(caught("seen after", parent)));
    }
    caught("own", parent);
    return wrong;
}
