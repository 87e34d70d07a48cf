// prlimit, NPROC, infinite values, raising without rights, inheritance: prlimit(2).
#include "guest.h"
static void *nothing(void *a) { return a; }
int main(int argc, char **argv) {
    struct rlimit r = {3, 7}, back;
    if (argc > 1)
        return getrlimit(RLIMIT_MSGQUEUE, &back),
               say("after exec %ld %ld", (long)back.rlim_cur, (long)back.rlim_max), 0;
    TRY(prlimit(0, RLIMIT_MSGQUEUE, &r, NULL)), TRY(prlimit(getpid(), RLIMIT_MSGQUEUE, NULL, &back)),
        say("%ld %ld", (long)back.rlim_cur, (long)back.rlim_max);
    reap("child", CHILD(getrlimit(RLIMIT_MSGQUEUE, &back); say("child %ld", (long)back.rlim_cur);
                        execl(argv[0], argv[0], "x", NULL)));
    for (int i = 0; i < RLIM_NLIMITS; i++)
        if (getrlimit(i, &back) || back.rlim_cur > back.rlim_max)
            say("limit %d is odd", i);
    TRY(getrlimit(99, &back)), TRY(prlimit(99999999, RLIMIT_CORE, NULL, &back)),
        TRY(getrlimit(RLIMIT_CORE, (void *)8));
    char *s = strstr(MUSTP(slurp("/proc/self/limits")), "Max msgqueue size"), soft[20], hard[20];
    sscanf(s, "Max msgqueue size %19s %19s", soft, hard), say("%s %s", soft, hard);
    reap("user", CHILD({
             if (!getuid())
                 MUST(setresuid(12345, 12345, 12345));
             r = (struct rlimit){8, 8}, TRY(setrlimit(RLIMIT_MSGQUEUE, &r));
             r = (struct rlimit){1, 1}, TRY(setrlimit(RLIMIT_NPROC, &r));
             pid_t c = fork();
             if (!c)
                 _exit(0);
             say("fork: %s", c < 0 ? errno_name(errno) : "ok");
             errno = pthread_create(&(pthread_t){0}, NULL, nothing, NULL),
             say("thread: %s", errno_name(errno));
         }));
    return 0;
}
