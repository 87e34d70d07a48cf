// A handler edits uc_sigmask: the changed mask is in force after its return: sigreturn(2).
#include "guest.h"
#include <ucontext.h>
static void h(int s, siginfo_t *i, void *c) { sigaddset(&((ucontext_t *)c)->uc_sigmask, SIGUSR2); }
static void two(int s) { say("USR2"); }
int main(int argc, char **argv) {
    sigset_t m;
    on_info(SIGUSR1, h, 0), on(SIGUSR2, two, 0);
    raise(SIGUSR1);
    sigprocmask(0, NULL, &m);
    say("USR2 blocked %d", sigismember(&m, SIGUSR2));
    raise(SIGUSR2);
    say("not yet");
    sigemptyset(&m), sigprocmask(SIG_SETMASK, &m, NULL);
    return 0;
}
