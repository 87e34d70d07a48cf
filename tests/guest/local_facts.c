// getpid, gettid, getuid, geteuid, getgid, getegid answer the same as the kernel's other calls do, after
// fork, vfork, clone, threads, the setuid family, execve of a set-user-ID file: credentials(7), clone(2),
// nptl(7). krun: static musl timeout=60
#include "guest.h"
#include <grp.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

// Written by one task and read by another, also across processes.
static struct shared {
    volatile int told, go, stop;
    volatile long uid, pid, tid;
} * s;

static long raw(long nr) { return syscall(nr); }

// The six answers, twice in a row, against calls that give the same values in other ways. quiet: only what is
// wrong.
static int true_facts(const char *what) {
    uid_t u[3];
    gid_t g[3];
    char self[64] = "";
    int pid = 0, tid = 0, good = 1;
    for (int i = 0; i < 2; i++) {
        long is[6] = {raw(SYS_getpid),  raw(SYS_gettid), raw(SYS_getuid),
                      raw(SYS_geteuid), raw(SYS_getgid), raw(SYS_getegid)};
        MUST(syscall(SYS_getresuid, &u[0], &u[1], &u[2]));
        MUST(syscall(SYS_getresgid, &g[0], &g[1], &g[2]));
        MUST(readlink("/proc/thread-self", self, sizeof self - 1));
        sscanf(self, "%d/task/%d", &pid, &tid);
        good &=
            is[0] == pid && is[1] == tid && is[2] == u[0] && is[3] == u[1] && is[4] == g[0] && is[5] == g[1];
        good &= syscall(SYS_tgkill, is[0], is[1], 0) == 0;
    }
    if (!good)
        wrong = 1, say("%s: the facts are WRONG", what);
    return good;
}
#define TRUE_FACTS(what) say("%s: %s", what, true_facts(what) ? "as they are" : "WRONG")

static void ids(const char *what) {
    TRUE_FACTS(what);
    say("%s: %ld %ld %ld %ld", what, raw(SYS_getuid), raw(SYS_geteuid), raw(SYS_getgid), raw(SYS_getegid));
}

// ---- new tasks ----

static int cloned(void *arg) {
    s->pid = raw(SYS_getpid), s->tid = raw(SYS_gettid);
    return true_facts(arg) ? 0 : 1;
}
static void with_clone(const char *what, int flags) {
    char *stack = (char *)pages(16) + 16 * PAGE;
    pid_t me = getpid(), c = (pid_t)MUST(clone(cloned, stack, flags | SIGCHLD, (void *)what));
    reap(what, c);
    say("%s: %s", what, s->pid == c && s->tid == c ? "its own number" : "another number");
    EXPECT(raw(SYS_getpid) == me && raw(SYS_gettid) == me);
}
static void children(void) {
    pid_t me = getpid();
    TRUE_FACTS("the first process");
    pid_t c = (pid_t)MUST(fork());
    if (!c) {
        s->pid = raw(SYS_getpid), s->tid = raw(SYS_gettid); // the first calls of the child
        TRUE_FACTS("fork");
        _exit(wrong);
    }
    reap("fork", c);
    EXPECT(s->pid == c && s->tid == c);
    EXPECT(raw(SYS_getpid) == me);
    if (!(c = vfork())) {
        s->pid = raw(SYS_getpid), s->tid = raw(SYS_gettid);
        _exit(0);
    }
    long after = raw(SYS_getpid); // the first call of the parent
    EXPECT(after == me && s->pid == c && s->tid == c);
    reap("vfork", c);
    if (!(c = vfork())) { // another one in between, while the parent waits
        pid_t d = vfork();
        if (!d) {
            s->tid = raw(SYS_getpid);
            _exit(0);
        }
        s->pid = raw(SYS_getpid), s->told = d;
        _exit(0);
    }
    EXPECT(s->pid == c && s->tid == s->told && raw(SYS_getpid) == me);
    reap("vfork in vfork", c);
    with_clone("clone", 0);
    with_clone("CLONE_VM", CLONE_VM);
    with_clone("CLONE_VM, CLONE_VFORK", CLONE_VM | CLONE_VFORK);
    with_clone("CLONE_VM, CLONE_FILES, CLONE_FS", CLONE_VM | CLONE_FILES | CLONE_FS);
    TRUE_FACTS("the first process in the end");
}

// ---- threads ----

static void *one(void *arg) {
    long pid = raw(SYS_getpid), tid = raw(SYS_gettid);
    int good = pid == (long)arg && tid != pid && true_facts("a thread");
    good &= raw(SYS_gettid) == tid;
    return good ? NULL : (void *)1;
}
static void
threads(void) { // one after the other, and several at once: a vCPU that is used again has no old answers
    long lost = 0;
    for (long i = 0, n = scaled(100); i < n; i++)
        lost += join(thread(one, (void *)(long)getpid())) != NULL;
    for (long i = 0, n = scaled(20); i < n; i++) {
        pthread_t t[8];
        for (int k = 0; k < 8; k++)
            t[k] = thread(one, (void *)(long)getpid());
        pid_t c = CHILD(true_facts("a child among threads"));
        for (int k = 0; k < 8; k++)
            lost += join(t[k]) != NULL;
        int status;
        while (waitpid(c, &status, 0) < 0)
            ;
        lost += status != 0;
    }
    say("threads that were wrong: %ld", lost);
    TRUE_FACTS("after the threads");
}
static void *leads(void *arg) { // the first thread has ended
    long pid = (long)arg, tid = raw(SYS_gettid);
    pause_ms(50);
    EXPECT(raw(SYS_getpid) == pid && raw(SYS_gettid) == tid && tid != pid);
    exit(wrong);
}

// ---- ids ----

static void *watches(void *arg) { // calls in a loop, and nothing else, until `go`; then the first answer
    long first = raw(SYS_geteuid), v;
    s->told = 1;
    while (!s->go)
        if ((v = raw(SYS_geteuid)) != first && v != 1000)
            return (void *)-1;
    return (void *)raw(SYS_geteuid);
}
static long watched(int raw_call) {
    s->told = s->go = 0;
    pthread_t t = thread(watches, NULL);
    while (!s->told)
        ;
    if (raw_call)
        MUST(syscall(SYS_setresuid, -1, 1000, -1));
    else
        MUST(setresuid(-1, 1000, -1));
    s->go = 1;
    EXPECT(raw(SYS_geteuid) == 1000);
    return (long)join(t);
}
static void by_threads(void) {
    say("after the library's setresuid the other thread is %ld", watched(0));
    MUST(setresuid(-1, 0, -1));
    say("after the raw call the other thread is %ld", watched(1));
    TRUE_FACTS("the thread that has changed itself");
}
static void *has_its_own(void *arg) {
    MUST(syscall(SYS_setresgid, 3000, 3001, 3002)), MUST(syscall(SYS_setresuid, 2000, 2001, 2002));
    s->told = 1;
    while (!s->go)
        if (raw(SYS_getuid) != 2000 || raw(SYS_geteuid) != 2001 || raw(SYS_getgid) != 3000 ||
            raw(SYS_getegid) != 3001)
            return (void *)1;
    // What this thread makes has its ids, not those of the process's first thread.
    int status;
    pid_t c = CHILD(wrong |= raw(SYS_getuid) != 2000 || raw(SYS_getegid) != 3001 || !true_facts("its child"));
    while (waitpid(c, &status, 0) < 0)
        ;
    return status ? (void *)2 : NULL;
}
static void each_its_own(void) {
    s->told = s->go = 0;
    pthread_t t = thread(has_its_own, NULL);
    while (!s->told)
        ;
    for (int i = 0; i < 50; i++)
        wrong |= raw(SYS_getuid) != 0 || raw(SYS_getegid) != 0;
    s->go = 1;
    say("a thread with ids of its own: %ld", (long)join(t));
    ids("the first thread");
}
static void family(void) {
    MUST(setregid(10, 11)), ids("setregid");
    MUST(setgid(12)), ids("setgid");
    MUST(setresgid(13, 14, 15)), ids("setresgid");
    setfsgid(16), ids("setfsgid");
    TRY(setgroups(0, NULL)), ids("setgroups");
    MUST(setreuid(0, 20)), ids("setreuid");
    MUST(setreuid(20, 0)), ids("setreuid back");
    setfsuid(21), ids("setfsuid");
    TRY(prctl(PR_SET_KEEPCAPS, 1)), ids("PR_SET_KEEPCAPS");
    TRY(prctl(PR_SET_NAME, "renamed")), ids("PR_SET_NAME");
    TRY(prctl(PR_SET_DUMPABLE, 0)), TRY(prctl(PR_SET_DUMPABLE, 1));
    MUST(setresuid(-1, 22, -1)), ids("setresuid");
    TRY(setresuid(23, 24, 25)), ids("setresuid that may fail");
    TRY(setsid()), ids("setsid");
    TRY(setpgid(0, 0)), ids("setpgid");
    MUST(setuid(22)), ids("setuid");
    TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)), ids("PR_SET_NO_NEW_PRIVS");
}

// ---- execve ----

static void executes(const char *self, const char *how, uid_t uid, gid_t gid, int mode) {
    char *text = NULL;
    int in = (int)MUST(open(self, O_RDONLY)),
        out = (int)MUST(open("program", O_WRONLY | O_CREAT | O_TRUNC, 0755));
    struct stat st;
    MUST(fstat(in, &st));
    text = MUSTP(mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, in, 0));
    MUST(write(out, text, st.st_size) == st.st_size ? 0 : -1);
    MUST(fchown(out, uid, gid)), MUST(fchmod(out, mode));
    close(in), close(out);
    MUST(chmod(".", 0755));
    pid_t c = CHILD({
        MUST(setresuid(1000, 1000, 1000));
        ids("before");
        execl("./program", "program", how, NULL);
        say("execl: %s", errno_name(errno));
    });
    reap(how, c);
    unlink("program");
}
static void *execs(void *arg) {
    execl("/proc/self/exe", "local_facts", "by a thread", arg, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (argc > 2)
            EXPECT(raw(SYS_getpid) == atoi(argv[2]) && raw(SYS_gettid) == atoi(argv[2]));
        TRUE_FACTS(
            argv[1]); // no numbers: krun executes a set-user-ID file with the caller's ids (docs/limits.md)
        return wrong;
    }
    if (getuid())
        return say("not root"), 0;
    s = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    children();
    threads();
    reap("without a first thread", CHILD(thread(leads, (void *)(long)getpid()); syscall(SYS_exit, 9)));
    reap("threads", CHILD(by_threads()));
    reap("each its own", CHILD(each_its_own()));
    reap("family", CHILD(family()));
    ids("the first process has changed nothing");
    executes("/proc/self/exe", "set-user-ID", 4000, 0, 04755);
    executes("/proc/self/exe", "set-group-ID", 0, 4001, 02755);
    executes("/proc/self/exe", "plain", 4000, 4001, 0755);
    reap("by a thread", CHILD({
             char number[16];
             snprintf(number, sizeof number, "%d", (int)getpid());
             join(thread(execs, number));
         }));
    return wrong;
}
