// rt_sigaction(2) in all its forms: every signal, NULL, read, set; sizes and pointers that are wrong and the
// order of the errors; waiting signals that are discarded; what children, programs and threads see. krun:
// static musl timeout=60
#include "guest.h"
#include <spawn.h>

struct action { // the kernel's own structure
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    unsigned long mask;
};
#define RESTORER 0x04000000UL
#define DFL ((uintptr_t)SIG_DFL)
#define IGN ((uintptr_t)SIG_IGN)

static long call(long sig, const void *act, void *old, size_t size) {
    return errno = 0, syscall(SYS_rt_sigaction, sig, act, old, size);
}
static const char *answer(long sig, const void *act, void *old, size_t size) {
    return call(sig, act, old, size) == -1 ? errno_name(errno) : "ok";
}
static struct action get(int sig) {
    struct action a;
    memset(&a, 0x55, sizeof a);
    call(sig, NULL, &a, 8);
    return a;
}
static long set(int sig, uintptr_t handler, unsigned long flags, uintptr_t restorer, unsigned long mask) {
    struct action a = {handler, flags, restorer, mask};
    return call(sig, &a, NULL, 8);
}
static int same(struct action a, struct action b) { return !memcmp(&a, &b, sizeof a); }
static void handler(int sig) {}
static void other(int sig) {}

// ---- numbers, sizes, pointers ----

static void numbers(void) {
    static const long sig[] = {0,       65, 66, 127, 128, -1, -64, 1L << 31, 1L << 32 | 10, ~0UL << 32 | 10,
                               1L << 40};
    struct action a = {DFL, RESTORER, 0, 0}, old;
    for (int i = 1; i <= 64; i++)
        say("%d: %s %s %s %s %s", i, answer(i, NULL, NULL, 8), answer(i, NULL, &old, 8),
            answer(i, &a, NULL, 8), answer(i, &a, &old, 8), answer(i, &a, &a, 8));
    for (size_t i = 0; i < COUNT(sig); i++) // the number is an int
        say("%#lx: %s %s %s", sig[i], answer(sig[i], NULL, NULL, 8), answer(sig[i], NULL, &old, 8),
            answer(sig[i], &a, &old, 8));
}
static void sizes(void) {
    static const size_t size[] = {0, 1, 4, 7, 9, 16, 64, 128, ~0UL, 1UL << 32 | 8};
    struct action a = {IGN, 0, 0, 0}, old;
    for (size_t i = 0; i < COUNT(size); i++)
        say("size %zu: %s %s %s, number 0 %s, bad pointers %s %s", size[i],
            answer(SIGUSR1, NULL, NULL, size[i]), answer(SIGUSR1, NULL, &old, size[i]),
            answer(SIGUSR1, &a, NULL, size[i]), answer(0, NULL, NULL, size[i]),
            answer(SIGUSR1, (void *)8, NULL, size[i]), answer(SIGUSR1, NULL, (void *)8, size[i]));
    EXPECT(get(SIGUSR1).handler == DFL);
}
static void pointers(void) {
    char *p = pages(3); // one that can be written, one that can be read, one of which nothing can
    MUST(mprotect(p + PAGE, PAGE, PROT_READ)), MUST(mprotect(p + 2 * PAGE, PAGE, PROT_NONE));
    // What lies above the addresses that a program maps, natively never mapped: krun has pages of its own
    // there.
    static const uintptr_t high[] = {0x6c0000000000, 0x6fffffff0000, 0x7ffffffff000, 0x800000000000,
                                     1UL << 63,      ~0UL - 31,      ~0UL - 4095,    ~0UL};
    void *bad[8 + COUNT(high)] = {(void *)1,        (void *)8,         p + 2 * PAGE,
                                  p + 2 * PAGE - 1, p + 2 * PAGE - 24, p + 3 * PAGE - 32};
    size_t n = 6;
    for (size_t i = 0; i < COUNT(high); i++)
        bad[n++] = (void *)high[i];
    struct action was = get(SIGUSR1);
    for (size_t i = 0; i < n; i++) {
        struct action a = {IGN, 0, 0, 0};
        say("pointer %zu: act %s, old %s, act with number 0 %s, old with number 0 %s, act of SIGKILL %s, old "
            "of SIGKILL %s",
            i, answer(SIGUSR1, bad[i], NULL, 8), answer(SIGUSR1, NULL, bad[i], 8), answer(0, bad[i], NULL, 8),
            answer(0, NULL, bad[i], 8), answer(SIGKILL, bad[i], NULL, 8), answer(SIGKILL, NULL, bad[i], 8));
        EXPECT(same(get(SIGUSR1), was));
        say("set, and old there: %s",
            answer(SIGUSR1, &a, bad[i], 8)); // the action is set before old is written
        say("handler %lu", get(SIGUSR1).handler);
        set(SIGUSR1, was.handler, was.flags, was.restorer, was.mask);
    }
    for (uintptr_t at = 0x6c0000000000; at < 0x6c0000020000; at += 0x800) // a vCPU's own pages
        wrong |= call(SIGUSR1, NULL, (void *)at, 8) != -1 || errno != EFAULT;
    say("pages of the monitor: %s", wrong ? "WRONG" : "EFAULT");
    // Half of the structure at the end of a page.
    for (int k = 8; k < 32; k += 8) {
        memset(p, 0x77, PAGE);
        set(SIGUSR2, (uintptr_t)handler, RESTORER | SA_NODEFER, 0x1234, 0x200);
        MUST(mprotect(p + PAGE, PAGE, PROT_NONE));
        say("old with %d bytes: %s", k, answer(SIGUSR2, NULL, p + PAGE - k, 8));
        say("before it: %d", p[PAGE - k - 1]);
        MUST(mprotect(p + PAGE, PAGE, PROT_READ));
        say("into a page that can only be read, %d: %s", k, answer(SIGUSR2, NULL, p + PAGE - k, 8));
        say("from it: %s", answer(SIGUSR2, p + PAGE - k, NULL, 8));
        MUST(mprotect(p + PAGE, PAGE, PROT_READ | PROT_WRITE));
        set(SIGUSR2, (uintptr_t)handler, RESTORER | SA_NODEFER, 0x1234, 0x200);
        say("across two pages: %s", answer(SIGUSR2, NULL, p + PAGE - k, 8));
        struct action a;
        memcpy(&a, p + PAGE - k, sizeof a);
        EXPECT(same(a, get(SIGUSR2)));
    }
    for (int k = 1; k < 16; k += 5) { // any alignment
        struct action a;
        call(SIGUSR2, NULL, p + k, 8);
        memcpy(&a, p + k, sizeof a);
        EXPECT(same(a, get(SIGUSR2)));
    }
    char *untouched = pages(1); // nobody has written there
    say("fresh page: %s", answer(SIGUSR2, NULL, untouched + 100, 8));
    EXPECT(!memcmp(untouched + 100,
                   &(struct action){(uintptr_t)handler, RESTORER | SA_NODEFER, 0x1234, 0x200}, 32));
    set(SIGUSR2, DFL, 0, 0, 0);
}

// ---- what is stored ----

static void stored(void) {
    static const unsigned long flags[] = {
        0,        SA_RESTART, SA_NOCLDSTOP, SA_NOCLDWAIT, SA_NODEFER, SA_RESETHAND, SA_ONSTACK, SA_SIGINFO,
        RESTORER, 0x400,      0x800,        0x2000,       1UL << 32,  1UL << 63,    ~0UL};
    static const int sig[] = {SIGHUP, SIGUSR1, SIGCHLD, SIGURG, SIGSEGV, SIGBUS, 33, 34, 64};
    for (size_t s = 0; s < COUNT(sig); s++)
        for (size_t i = 0; i < COUNT(flags); i++) {
            struct action back[3], old;
            static const uintptr_t to[] = {DFL, IGN, DFL};
            for (int k = 0; k < 3; k++) {
                struct action a = {to[k], flags[i], 0x1000 + k, ~0UL};
                struct action before = get(sig[s]);
                MUST(call(sig[s], &a, &old, 8));
                wrong |= !same(old, before);
                back[k] = get(sig[s]);
            }
            say("%d flags %#lx: %lu %#lx %#lx %#lx, %lu %#lx, %lu %#lx %#lx", sig[s], flags[i],
                back[0].handler, back[0].flags, back[0].restorer, back[0].mask, back[1].handler,
                back[1].flags, back[2].handler, back[2].flags, back[2].restorer);
        }
    EXPECT(!wrong);
    for (int i = 1; i <= 64; i++) // as posix_spawn(3) does for its child
        if (i != SIGKILL && i != SIGSTOP) {
            struct action a = get(i);
            a.handler = DFL, a.flags = RESTORER, a.restorer = (uintptr_t)handler, a.mask = 0;
            MUST(call(i, &a, NULL, 8));
            wrong |= !same(get(i), a);
        }
    EXPECT(!wrong);
    for (int i = 1; i <= 64; i++)
        set(i, DFL, 0, 0, 0);
}

// ---- signals that wait ----

static int waits(int sig) {
    unsigned long set = 0;
    syscall(SYS_rt_sigpending, &set, 8);
    return set >> (sig - 1) & 1;
}
static void pending(void) {
    unsigned long all = ~0UL;
    MUST(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8));
    for (int sig = 1; sig <= 64; sig++) {
        if (sig == SIGKILL || sig == SIGSTOP)
            continue;
        char line[200];
        int at = 0;
        // from, to: what is set before the signal is sent, and after it
        static const uintptr_t from[] = {DFL, DFL, DFL, IGN, IGN, 2, 2, 2},
                               to[] = {DFL, IGN, 2, DFL, IGN, DFL, IGN, 2};
        for (size_t i = 0; i < COUNT(from); i++) {
            set(sig, from[i] == 2 ? (uintptr_t)handler : from[i], RESTORER, (uintptr_t)other, 0);
            kill(getpid(), sig);
            int before = waits(sig);
            set(sig, to[i] == 2 ? (uintptr_t)other : to[i], SA_RESTART | RESTORER, (uintptr_t)other, 0);
            at += snprintf(line + at, sizeof line - at, " %d%d", before, waits(sig));
            set(sig, IGN, 0, 0, 0); // discards
            wrong |= waits(sig);
        }
        say("waiting %d:%s", sig, line);
    }
    EXPECT(!wrong);
}
static void dies(int sig) { // of a default action that was set again, with other flags
    set(sig, DFL, RESTORER, (uintptr_t)handler, 0);
    set(sig, DFL, RESTORER | SA_NODEFER, (uintptr_t)other, 0x10);
    kill(getpid(), sig);
}
static void resets(void) { // SA_RESETHAND
    struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESETHAND | SA_NODEFER};
    MUST(sigaction(SIGUSR1, &a, NULL));
    struct action before = get(SIGUSR1);
    raise(SIGUSR1);
    struct action after = get(SIGUSR1);
    EXPECT(before.handler == (uintptr_t)handler && after.handler == DFL);
    EXPECT(before.flags == after.flags && before.restorer == after.restorer && before.mask == after.mask);
}
static void child_signals(void) { // SIGCHLD: what a default action with other flags means for children
    pid_t c;
    set(SIGCHLD, DFL, SA_NOCLDWAIT | RESTORER, 0, 0);
    c = CHILD((void)0);
    say("NOCLDWAIT: %s", waitpid(c, NULL, 0) == -1 ? errno_name(errno) : "waited");
    set(SIGCHLD, DFL, RESTORER, 0, 0);
    c = CHILD((void)0);
    say("default: %s", waitpid(c, NULL, 0) == -1 ? errno_name(errno) : "waited");
    set(SIGCHLD, IGN, RESTORER, 0, 0);
    c = CHILD((void)0);
    say("ignored: %s", waitpid(c, NULL, 0) == -1 ? errno_name(errno) : "waited");
    set(SIGCHLD, DFL, 0, 0, 0);
}

// ---- children, programs, threads ----

static void list(const char *what) { // every action that is not the plain default one
    for (int i = 1; i <= 64; i++) {
        struct action a = get(i);
        if (a.handler != DFL || a.flags || a.mask || a.restorer)
            say("%s: %d %s %#lx %#lx%s", what, i,
                a.handler == DFL                  ? "default"
                : a.handler == IGN                ? "ignored"
                : a.handler == (uintptr_t)handler ? "handler"
                                                  : "other",
                a.flags, a.mask, a.restorer ? ", restorer" : "");
    }
    say("%s: listed", what);
}
static void some(void) {
    for (int i = 1; i <= 64; i++)
        set(i, DFL, 0, 0, 0);
    set(SIGUSR1, (uintptr_t)handler, RESTORER | SA_RESTART, (uintptr_t)other, 0x200);
    set(SIGUSR2, IGN, SA_RESTART, 0, 0x800);
    set(SIGHUP, DFL, RESTORER | SA_NODEFER, (uintptr_t)other, 0x4000);
    set(SIGTERM, DFL, SA_NOCLDSTOP, 0, 0);
    set(SIGCHLD, DFL, SA_NOCLDSTOP, 0, 1);
    set(40, IGN, 0, 0, 0);
    set(64, (uintptr_t)other, 0, 0, ~0UL);
}
static void relatives(const char *self) {
    extern char **environ;
    pid_t c;
    some(), list("before");
    c = CHILD(list("fork"); set(SIGUSR2, DFL, 0, 0, 0); set(SIGHUP, (uintptr_t)other, 0, 0, 0));
    reap("fork", c);
    list("after fork");
    struct action seen[3]; // vfork: the memory is shared, the actions are not
    if (!(c = vfork())) {
        seen[0] = get(SIGHUP);
        set(SIGHUP, DFL, SA_RESTART, 0, 0x70);
        seen[1] = get(SIGHUP);
        set(SIGUSR2, DFL, 0, 0, 0);
        seen[2] = get(SIGUSR1);
        _exit(0);
    }
    struct action mine = get(SIGHUP);
    reap("vfork", c);
    EXPECT(same(mine, seen[0]) && !same(mine, seen[1]) && same(seen[2], get(SIGUSR1)));
    EXPECT(seen[1].flags == SA_RESTART && seen[1].mask == 0x70);
    list("after vfork");
    if (!(c = vfork())) {
        set(SIGHUP, DFL, SA_RESTART, 0, 0x70);
        set(SIGTERM, IGN, 0, 0, 0), set(SIGTERM, DFL, 0, 0, 0), set(41, IGN, 0, 0, 0);
        execl("/proc/self/exe", "sig_action_forms", "vfork and execve", NULL);
        _exit(9);
    }
    reap("vfork and execve", c);
    list("after vfork and execve");
    c = CHILD(execl("/proc/self/exe", "sig_action_forms", "execve", NULL));
    reap("execve", c);
    for (int how = 0; how < 3; how++) {
        static const char *const name[] = {"spawn", "spawn with a default", "spawn with a mask"};
        posix_spawnattr_t attr;
        sigset_t sigs;
        posix_spawnattr_init(&attr);
        sigemptyset(&sigs), sigaddset(&sigs, SIGUSR2), sigaddset(&sigs, SIGHUP);
        if (how == 1)
            posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF),
                posix_spawnattr_setsigdefault(&attr, &sigs);
        if (how == 2)
            posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK), posix_spawnattr_setsigmask(&attr, &sigs);
        char *args[] = {(char *)self, (char *)name[how], NULL};
        errno = posix_spawn(&c, self, NULL, &attr, args, environ);
        MUST(errno ? -1 : 0);
        reap(name[how], c);
    }
    list("after spawn");
}
static struct {
    struct action a[2];
    volatile int stop;
} versions;
static void *writes(void *arg) {
    for (long i = 0, n = scaled(3000); i < n; i++)
        if (call(SIGUSR1, &versions.a[i % 2], NULL, 8) ||
            !(i % 3 || call(SIGUSR2, &versions.a[i % 2], NULL, 8) == 0))
            return (void *)1;
    versions.stop = 1;
    return NULL;
}
static void *reads(void *arg) { // one version or the other, never parts of both
    long odd = 0;
    while (!versions.stop) {
        struct action a = get(SIGUSR1), b = get(SIGUSR2);
        odd += !same(a, versions.a[0]) && !same(a, versions.a[1]);
        odd += !same(b, versions.a[0]) && !same(b, versions.a[1]);
    }
    return (void *)odd;
}
static void *first_read(void *expected) {
    return same(get(SIGUSR1), *(struct action *)expected) ? NULL : (void *)1;
}
static void threads(uintptr_t one, uintptr_t two) {
    versions.a[0] = (struct action){one, RESTORER | SA_RESTART, (uintptr_t)handler, 0x1011};
    versions.a[1] = (struct action){two, RESTORER | SA_NODEFER, (uintptr_t)other, 0x2222};
    versions.stop = 0;
    call(SIGUSR1, &versions.a[0], NULL, 8), call(SIGUSR2, &versions.a[0], NULL, 8);
    pthread_t t[3] = {thread(reads, NULL), thread(reads, NULL), thread(writes, NULL)};
    long odd = 0;
    for (int i = 0; i < 3; i++)
        odd += (long)join(t[i]);
    say("threads: %ld reads of a mixture", odd);
    for (long i = 0, n = scaled(100); i < n; i++) { // a new thread sees what its maker has set
        call(SIGUSR1, &versions.a[i % 2], NULL, 8);
        wrong |= join(thread(first_read, &versions.a[i % 2])) != NULL;
    }
    EXPECT(!wrong);
}
static volatile struct {
    int turn;
    struct action seen;
} play;
static void *looks(void *arg) { // reads when it is asked, and makes no other call
    for (int turn = 1; turn <= 400; turn++) {
        while (play.turn != turn * 2 - 1)
            ;
        struct action a;
        call(SIGHUP, NULL, &a, 8);
        memcpy((void *)&play.seen, &a, sizeof a);
        __atomic_store_n(&play.turn, turn * 2, __ATOMIC_SEQ_CST);
    }
    return NULL;
}
static void turns(void) {
    pthread_t t = thread(looks, NULL);
    for (int turn = 1; turn <= 400; turn++) {
        struct action a = {turn % 3 ? DFL : (uintptr_t)handler, RESTORER, 0x1000 + turn, turn}, seen;
        a.mask &= ~(1UL << (SIGKILL - 1) | 1UL << (SIGSTOP - 1));
        call(SIGHUP, &a, NULL, 8);
        __atomic_store_n(&play.turn, turn * 2 - 1, __ATOMIC_SEQ_CST);
        while (play.turn != turn * 2)
            ;
        memcpy(&seen, (void *)&play.seen, sizeof seen);
        wrong |= !same(a, seen);
    }
    join(t);
    EXPECT(!wrong);
}

int main(int argc, char **argv) {
    if (argc > 1)
        return list(argv[1]), wrong;
    for (int i = 1; i <= 64; i++) // whatever the program was started with
        set(i, DFL, 0, 0, 0);
    reap("numbers", CHILD(numbers()));
    reap("sizes", CHILD(sizes()));
    reap("pointers", CHILD(pointers()));
    reap("stored", CHILD(stored()));
    reap("pending", CHILD(pending()));
    static const int fatal[] = {SIGHUP, SIGUSR1, SIGTERM, SIGSEGV, 34, 64};
    for (size_t i = 0; i < COUNT(fatal); i++)
        reap("default", CHILD(dies(fatal[i])));
    static const int harmless[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT};
    for (size_t i = 0; i < COUNT(harmless); i++)
        reap("default", CHILD(dies(harmless[i])));
    reap("resets", CHILD(resets()));
    reap("child signals", CHILD(child_signals()));
    reap("relatives", CHILD(relatives("/proc/self/exe")));
    reap("threads", CHILD(threads(DFL, DFL)));
    reap("threads", CHILD(threads(DFL, (uintptr_t)handler)));
    reap("turns", CHILD(turns()));
    return wrong;
}
