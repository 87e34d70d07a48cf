// getuid and its relatives in a user namespace whose maps another process writes, before and after setns(2);
// getpid in a pid namespace: user_namespaces(7), pid_namespaces(7). krun: host timeout=60
#include "guest.h"

static struct shared {
    volatile int told, go, seen;
    volatile long before, after;
} * s;

static long raw(long nr) { return syscall(nr); }

static void ids(const char *what) {
    say("%s: %ld %ld %ld %ld", what, raw(SYS_getuid), raw(SYS_geteuid), raw(SYS_getgid), raw(SYS_getegid));
}
static long put(pid_t pid, const char *file, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_WRONLY);
    long r = fd < 0 ? -1 : write(fd, text, strlen(text));
    close(fd);
    return r;
}
static void wait_for(volatile int *word) {
    while (!*word)
        pause_ms(1);
}

// The child makes nothing but getuid calls while its parent writes the maps: the answer changes without a
// call of its own.
static void unshares(const char *what) {
    memset((void *)s, 0, sizeof *s);
    pid_t c = CHILD({
        MUST(unshare(CLONE_NEWUSER));
        s->before = raw(SYS_getuid);
        s->told = 1;
        while (!s->go)
            raw(SYS_getuid), raw(SYS_getegid);
        s->after = raw(SYS_getuid);
        ids("with the maps");
        pid_t d = CHILD(ids("its child"));
        reap("its child", d);
        TRY(setresuid(-1, 7, -1));
        ids("setresuid");
        TRY(setresuid(-1, 5, -1)); /* cred_effective_exec has an execve with another effective id */
        execl("/proc/self/exe", "x", "executed", NULL);
    });
    wait_for(&s->told);
    TRY(put(c, "setgroups", "deny"));
    TRY(put(c, "uid_map", "5 0 1\n7 7 1\n"));
    TRY(put(c, "gid_map", "6 0 1\n"));
    s->go = 1;
    reap(what, c);
    say("%s: %ld, then %ld", what, s->before, s->after);
}
static void cloned(void) { // made in a user namespace: its first answers, before anybody has written a map
    memset((void *)s, 0, sizeof *s);
    pid_t c = (pid_t)MUST(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL));
    if (!c) {
        s->before = raw(SYS_getuid);
        s->told = 1;
        while (!s->go)
            raw(SYS_getuid);
        s->after = raw(SYS_getuid);
        _exit(0);
    }
    wait_for(&s->told);
    TRY(put(c, "uid_map", "5 0 1\n"));
    s->go = 1;
    reap("cloned", c);
    say("cloned: %ld, then %ld", s->before, s->after);
}
static void joins(void) { // setns(2) into the user namespace of a child
    memset((void *)s, 0, sizeof *s);
    pid_t c = CHILD({
        MUST(unshare(CLONE_NEWUSER));
        s->told = 1;
        wait_for(&s->go);
    });
    wait_for(&s->told);
    TRY(put(c, "uid_map", "5 0 1\n"));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", c);
    pid_t d = CHILD({
        int fd = (int)MUST(open(path, O_RDONLY));
        ids("outside");
        TRY(setns(fd, CLONE_NEWUSER));
        ids("inside");
    });
    reap("joined", d);
    s->go = 1;
    reap("its owner", c);
}
static void *says_pid(void *arg) { return (void *)raw(SYS_getpid); }
static void pids(void) {
    pid_t me = getpid();
    TRY(unshare(CLONE_NEWPID));
    EXPECT(raw(SYS_getpid) == me && raw(SYS_gettid) == me);
    pid_t c = CHILD({
        say("the first: %ld %ld", raw(SYS_getpid), raw(SYS_gettid));
        pid_t d = CHILD(EXPECT(raw(SYS_getpid) > 1 && raw(SYS_getpid) == raw(SYS_gettid)));
        reap("its child", d);
        say("its thread: %ld", (long)join(thread(says_pid, NULL)));
        if (!(d = vfork())) {
            s->after = raw(SYS_getpid);
            _exit(0);
        }
        EXPECT(s->after == d && raw(SYS_getpid) == 1);
        reap("its vfork child", d);
    });
    reap("the first", c);
    EXPECT(raw(SYS_getpid) == me);
}
int main(int argc, char **argv) {
    if (argc > 1)
        return ids(argv[1]), 0;
    s = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    unshares("unshared");
    cloned();
    joins();
    reap("pid namespace", CHILD(pids()));
    return wrong;
}
