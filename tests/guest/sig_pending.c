// sigpending(2): process-directed and thread-directed, not inherited by fork, taken away by SIG_IGN.
#include "guest.h"
static void show(const char *what) {
    sigset_t p;
    sigpending(&p);
    say("%s: USR1 %d USR2 %d", what, sigismember(&p, SIGUSR1), sigismember(&p, SIGUSR2));
}
static void *run(void *a) {
    show("other thread");
    return NULL;
}
int main(int argc, char **argv) {
    sigset_t b;
    sigemptyset(&b), sigaddset(&b, SIGUSR1), sigaddset(&b, SIGUSR2), sigprocmask(SIG_BLOCK, &b, NULL);
    kill(getpid(), SIGUSR1), syscall(SYS_tgkill, getpid(), getpid(), SIGUSR2);
    show("main");
    join(thread(run, NULL));
    reap("child", CHILD(show("child")));
    signal(SIGUSR1, SIG_IGN), signal(SIGUSR2, SIG_IGN);
    show("ignored");
    return 0;
}
