// Core files: into one's own links, with small limits, from processes whose other threads do not stop.
#include "fuzz.h"
#include <sys/prctl.h>

static void *busy(void *argument) {
    state = (u64)argument | 1;
    rounds(1000);
    return NULL;
}

void cores(void) {
    static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGQUIT, SIGILL, SIGSYS, SIGXCPU, SIGFPE};
    if (RAW(SYS_fork) == 0) {
        u64 n = below(3);
        struct rlimit limit = {n == 0 ? below(8192) : n == 1 ? 1 << 20 : RLIM_INFINITY, RLIM_INFINITY};
        getrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        limit.rlim_cur = limit.rlim_cur > (4 << 20) ? 4 << 20 : limit.rlim_cur, limit.rlim_max = 4 << 20;
        setrlimit(RLIMIT_CORE, &limit);
        chdir("/tmp");
        switch (below(6)) {
        case 0:
            unlink("core"), symlink("/tmp/a", "core");
            break;
        case 1:
            unlink("core"), link("/tmp/a", "core");
            break;
        case 2:
            unlink("core"), mkfifo("core", 0666);
            break;
        case 3:
            unlink("core"), symlink("/proc/self/fd/1000", "core");
            break;
        case 4:
            prctl(PR_SET_DUMPABLE, below(3));
            break;
        default:
            unlink("core");
        }
        int sig = fatal[below(COUNT(fatal))];
        signal(sig, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        pthread_t t;
        for (u64 i = below(4); i > 0; i--)
            pthread_create(&t, NULL, busy, (void *)rnd());
        if (!below(3))
            relatives();
        kill(getpid(), sig);
        RAW(SYS_exit_group, 0);
    }
    reap(60);
}
