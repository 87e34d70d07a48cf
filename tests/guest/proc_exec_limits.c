// Exec keeps resource limits, priority, the process group, timers and locks: execve(2).
#include "guest.h"
int main(int argc, char **argv) {
    struct rlimit r;
    struct itimerval t;
    if (argc > 1) {
        getrlimit(RLIMIT_NOFILE, &r);
        getitimer(ITIMER_REAL, &t);
        say("files %ld, nice %d, group leader %d, timer armed %d", (long)r.rlim_cur, getpriority(0, 0),
            getpgrp() == getpid(), t.it_value.tv_sec > 0);
        struct flock l = {.l_type = F_WRLCK};
        reap("lock", CHILD(fcntl(30, F_GETLK, &l);
                           say("held by the parent %d", l.l_type == F_WRLCK && l.l_pid == getppid())));
        return 0;
    }
    setpgid(0, 0);
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = 100, MUST(setrlimit(RLIMIT_NOFILE, &r));
    setpriority(0, 0, 4), alarm(1000);
    dup2(file_with("f", "x"), 30);
    struct flock l = {.l_type = F_WRLCK};
    MUST(fcntl(30, F_SETLK, &l));
    execl(argv[0], "x", "1", NULL);
    return 9;
}
