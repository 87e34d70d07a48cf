// A hard RLIMIT_NOFILE that is lowered, then threads, opens, mappings and execve: getrlimit, prlimit,
// getdents.
#include "guest.h"
static void limit(void) {
    struct rlimit r, p;
    MUST(getrlimit(RLIMIT_NOFILE, &r)), MUST(prlimit(0, RLIMIT_NOFILE, NULL, &p));
    say("soft %ld hard %ld, %d", (long)r.rlim_cur, (long)r.rlim_max, !memcmp(&r, &p, sizeof r));
}
static void *work(void *a) {
    char *m;
    int n = 0, fd;
    for (int i = 0; i < 50; i++) {
        fd = open("/proc/self/exe", O_RDONLY);
        m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        n += fd >= 0 && m != MAP_FAILED && !memcmp(m, "\177ELF", 4);
        munmap(m, 4096), close(fd);
    }
    while ((fd = dup(0)) >= 0)
        n += fd < 40;
    say("%d, then %s", n, errno_name(errno));
    for (fd = 3; fd < 40; fd++)
        close(fd);
    return a;
}
static void *by_thread(void *a) { // a thread's number names its process
    struct rlimit r = {39, 40}, old;
    TRY(prlimit(gettid(), RLIMIT_NOFILE, &r, &old)), say("old %ld", (long)old.rlim_cur), limit();
    r.rlim_cur = 40, MUST(prlimit(gettid(), RLIMIT_NOFILE, &r, NULL)), work(a);
    return a;
}
int main(int argc, char **argv) {
    if (argc == 1) {
        struct rlimit r = {40, 40}, old;
        MUST(prlimit(getpid(), RLIMIT_NOFILE, &r, &old));
        EXPECT(old.rlim_max > 40);
    }
    struct rlimit r = {40, 41}, bad = {41, 40};
    limit();
    TRY(setrlimit(RLIMIT_NOFILE, &bad)), TRY(prlimit(0, RLIMIT_NOFILE, (void *)8, NULL));
    if (getuid()) // who may raise limits may
        TRY(setrlimit(RLIMIT_NOFILE, &r));
    int c = CHILD(limit(); join(thread(work, NULL)));
    reap("child", c);
    join(thread(work, NULL)), join(thread(by_thread, NULL));
    SHOW(dup2(0, 39)), TRY(dup2(0, 40)), TRY(fcntl(0, F_DUPFD, 40));
    close(39);
    if (argc == 1)
        MUST(execl("/proc/self/exe", argv[0], "x", (char *)0));
    r.rlim_cur = 7, r.rlim_max = 9;
    MUST(setrlimit(RLIMIT_NOFILE, &r)), limit();
    join(thread(work, NULL)), TRY(dup2(0, 8));
    return wrong;
}
