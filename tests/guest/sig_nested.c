// Nested handlers: the mask of each, SA_NODEFER re-entry, order of return: sigaction(2).
// krun: static
#include "guest.h"
static int depth;
static void blocked(const char *where) {
    sigset_t m;
    sigprocmask(0, NULL, &m);
    say("%s: USR1 %d USR2 %d HUP %d", where, sigismember(&m, SIGUSR1), sigismember(&m, SIGUSR2),
        sigismember(&m, SIGHUP));
}
static void one(int s) {
    blocked("in USR1");
    raise(SIGUSR2); // not in the mask: at once
    raise(SIGHUP);  // in the mask: later
    raise(SIGUSR1); // itself: later
    say("end of USR1");
    signal(SIGUSR1, SIG_IGN);
}
static void two(int s) { blocked("in USR2"); }
static void hup(int s) { blocked("in HUP"); }
static void again(int s) {
    if (++depth < 4)
        raise(SIGTERM);
    say("depth %d", depth--);
}
int main(int argc, char **argv) {
    struct sigaction a = {.sa_handler = one};
    sigaddset(&a.sa_mask, SIGHUP);
    sigaction(SIGUSR1, &a, NULL);
    on(SIGUSR2, two, 0), on(SIGHUP, hup, 0), on(SIGTERM, again, SA_NODEFER);
    raise(SIGUSR1);
    blocked("outside");
    raise(SIGTERM);
    return 0;
}
