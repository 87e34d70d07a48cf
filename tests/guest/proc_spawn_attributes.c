// posix_spawn(3) attributes: process group, signal mask, default signals, session.
#include "guest.h"
#include <spawn.h>
int main(int argc, char **argv) {
    if (argc > 1) {
        sigset_t m;
        struct sigaction s;
        sigprocmask(0, NULL, &m);
        sigaction(SIGINT, NULL, &s);
        say("group leader %d, session leader %d, USR1 blocked %d, USR2 blocked %d, INT %s",
            getpgrp() == getpid(), getsid(0) == getpid(), sigismember(&m, SIGUSR1), sigismember(&m, SIGUSR2),
            s.sa_handler == SIG_IGN ? "ignored" : "default");
        return 0;
    }
    sigset_t m, d;
    sigemptyset(&m), sigaddset(&m, SIGUSR2), sigprocmask(SIG_SETMASK, &m, NULL);
    sigemptyset(&m), sigaddset(&m, SIGUSR1), sigemptyset(&d), sigaddset(&d, SIGINT);
    signal(SIGINT, SIG_IGN);
    static const short flags[] = {0, POSIX_SPAWN_SETPGROUP, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF,
                                  0x80};
    for (size_t i = 0; i < COUNT(flags); i++) {
        posix_spawnattr_t a;
        pid_t pid;
        posix_spawnattr_init(&a);
        posix_spawnattr_setflags(&a, flags[i]), posix_spawnattr_setpgroup(&a, 0);
        posix_spawnattr_setsigmask(&a, &m), posix_spawnattr_setsigdefault(&a, &d);
        MUST(posix_spawn(&pid, argv[0], NULL, &a, (char *[]){argv[0], "x", NULL}, NULL) ? -1 : 0);
        waitpid(pid, NULL, 0);
    }
    return 0;
}
