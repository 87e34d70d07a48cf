// Filters of one thread: inherited by what it makes, brought to the others by TSYNC, refused where one cannot
// follow: seccomp(2).
#include "guest.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#ifndef SECCOMP_FILTER_FLAG_TSYNC_ESRCH
#define SECCOMP_FILTER_FLAG_TSYNC_ESRCH (1UL << 4)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
static long install(int nr, unsigned action, unsigned flags) {
    struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, action),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog p = {4, f};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p);
}
static const char *answer(long nr) { return errno = 0, syscall(nr) == -1 ? errno_name(errno) : "ok"; }
static int field(const char *key, int tid) { // of /proc/self/task/TID/status
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    char *text = slurp(path), *at = text ? strstr(text, key) : NULL;
    int value = at ? atoi(at + strlen(key)) : -1;
    free(text);
    return value;
}
static void show(const char *who, int tid) {
    say("%s: mode %d, filters %d, no_new_privs %d", who, field("Seccomp:", tid),
        field("Seccomp_filters:", tid), field("NoNewPrivs:", tid));
}

static void until_gone(int tid) { // the kernel counts a thread a little longer than pthread_join() waits
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", tid);
    while (!access(path, F_OK))
        pause_ms(2);
}

static pthread_barrier_t b;
static volatile int other_tid, step;
static void *inherits(void *a) { return (void *)answer(SYS_getppid); }
static void *other(void *a) {
    other_tid = gettid();
    pthread_barrier_wait(&b); // 1: main looks
    pthread_barrier_wait(&b); // 2: main has its own filter
    say("other thread: getppid %s, getpgrp %s", answer(SYS_getppid), answer(SYS_getpgrp));
    say("its no_new_privs %d, its mode %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_SECCOMP));
    say("its filter without no_new_privs: %s", geteuid() ? "not root"
                                               : install(SYS_getsid, SECCOMP_RET_ALLOW, 0) == 0
                                                   ? "ok"
                                                   : errno_name(errno));
    pthread_barrier_wait(&b); // 3: our lines are out
    pthread_barrier_wait(&b); // 4: main tries TSYNC, we cannot follow if we have one of our own
    pthread_barrier_wait(&b); // 5
    return NULL;
}
static void *follows(void *a) {
    other_tid = gettid();
    pthread_barrier_wait(&b);
    pthread_barrier_wait(&b);
    say("after TSYNC: getppid %s, getpgrp %s, getuid %s", answer(SYS_getppid), answer(SYS_getpgrp),
        answer(SYS_getuid));
    say("no_new_privs %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    pthread_barrier_wait(&b);
    return NULL;
}
static void *strict(void *a) {
    other_tid = gettid();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
        return (void *)1;
    char c;
    write(*(int *)a, "s", 1);
    read(((int *)a)[1], &c, 1);
    syscall(SYS_getpid); // ends this thread only
    return NULL;
}
static void *killed(void *a) {
    install(SYS_getgid, SECCOMP_RET_KILL_THREAD, 0);
    syscall(SYS_getgid);
    return NULL;
}
static void one_for_itself(void) {
    pthread_t t = thread(other, NULL);
    pthread_barrier_wait(&b);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(install(SYS_getppid, SECCOMP_RET_ERRNO | ENOTEMPTY, 0));
    show("main", getpid()), show("other", other_tid);
    say("main: getppid %s", answer(SYS_getppid));
    pthread_barrier_wait(&b);
    pthread_barrier_wait(&b);
    say("made later: getppid %s", (const char *)join(thread(inherits, NULL)));
    reap("forked", CHILD(say("forked: getppid %s", answer(SYS_getppid))));
    pthread_barrier_wait(&b);
    show("other now", other_tid);
    long r = install(SYS_getuid, SECCOMP_RET_ERRNO | EXDEV, SECCOMP_FILTER_FLAG_TSYNC);
    say("TSYNC: %s", r == 0 ? "ok" : r == other_tid ? "names the other thread" : "wrong");
    TRY(install(SYS_getuid, SECCOMP_RET_ERRNO | EXDEV,
                SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH));
    say("not installed: getuid %s", answer(SYS_getuid));
    pthread_barrier_wait(&b);
    join(t);
    until_gone(other_tid);
    TRY(install(SYS_getuid, SECCOMP_RET_ERRNO | EXDEV, SECCOMP_FILTER_FLAG_TSYNC));
    say("alone: getuid %s", answer(SYS_getuid));
    show("main", getpid());
}
static void all_follow(void) {
    pthread_t t = thread(follows, NULL);
    pthread_barrier_wait(&b);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(install(SYS_getppid, SECCOMP_RET_ERRNO | ENOTEMPTY, 0));
    TRY(install(SYS_getpgrp, SECCOMP_RET_ERRNO | EDOM, SECCOMP_FILTER_FLAG_TSYNC));
    show("other", other_tid);
    pthread_barrier_wait(&b);
    pthread_barrier_wait(&b);
    join(t);
}
static void strict_thread(void) {
    int up[2], down[2], both[2];
    char c;
    MUST(pipe(up)), MUST(pipe(down));
    both[0] = up[1], both[1] = down[0];
    pthread_t t;
    pthread_create(&t, NULL, strict, both);
    read(up[0], &c, 1);
    show("strict thread", other_tid), show("main", getpid());
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(install(SYS_getuid, SECCOMP_RET_ERRNO | EXDEV,
                SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH));
    write(down[1], "g", 1);
    until_gone(other_tid);
    say("the strict thread is gone, main goes on: getppid %s", answer(SYS_getppid));
}
static void churn(void) { // filters come and go with their threads
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    long good = 0, n = scaled(200);
    for (long i = 0; i < n; i++) {
        pthread_t t;
        pthread_create(&t, NULL, killed, NULL);
        pthread_join(t, NULL);
        good++;
    }
    say("%s", good == n ? "all threads ended, the process did not" : "lost");
    show("main", getpid());
}
int main(int argc, char **argv) {
    pthread_barrier_init(&b, NULL, 2);
    reap("one", CHILD(one_for_itself()));
    reap("all", CHILD(all_follow()));
    reap("strict", CHILD(strict_thread()));
    reap("killed", CHILD(churn()));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(install(SYS_getuid, SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_LOG));
    TRY(install(SYS_getuid, SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_SPEC_ALLOW));
    TRY(install(SYS_getuid, SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV));
    TRY(install(SYS_getuid, SECCOMP_RET_ALLOW, 1U << 20));
    TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)); // a mode cannot be left
    unsigned short sizes[3] = {0};
    TRY(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, sizes)),
        TRY(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 1, sizes));
    say("struct seccomp_data has %d bytes", sizes[2]);
    unsigned action = SECCOMP_RET_KILL_PROCESS, none = 0x12340000;
    TRY(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action)),
        TRY(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &none));
    return wrong;
}
