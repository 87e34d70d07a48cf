// A filter on a call that only asks (getpid, getuid, rt_sigaction) holds from the next call on: for the
// thread, by TSYNC for one that makes nothing but such calls, for the tasks that it makes, after execve:
// seccomp(2). krun: static timeout=60
#include "guest.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static long install(struct sock_filter *f, size_t n, unsigned flags) {
    struct sock_fprog p = {(unsigned short)n, f};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p);
}
static long on_number(int nr, unsigned action, unsigned flags) {
    struct sock_filter f[] = {LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, action), ALLOW};
    return install(f, COUNT(f), flags);
}
static const char *answer(long nr, long a, long b) {
    return errno = 0, syscall(nr, a, b, NULL, 8L) == -1 ? errno_name(errno) : "ok";
}
static void ask(const char *what) {
    say("%s: getpid %s, gettid %s, getuid %s, rt_sigaction %s", what, answer(SYS_getpid, 0, 0),
        answer(SYS_gettid, 0, 0), answer(SYS_getuid, 0, 0), answer(SYS_rt_sigaction, SIGUSR1, 0));
}
static void *asks(void *what) { return ask(what), NULL; }

static void by_number(void) {
    ask("no filter");
    TRY(on_number(SYS_getpid, SECCOMP_RET_ERRNO | EXDEV, 0));
    ask("getpid refused");
    TRY(on_number(SYS_rt_sigaction, SECCOMP_RET_ERRNO | EDOM, 0));
    ask("rt_sigaction, too");
    join(thread(asks, "a thread"));
    reap("a child", CHILD(ask("a child")));
    execl("/proc/self/exe", "local_filters", "executed", NULL);
}
// A filter may look at the arguments of a call that has none, or at the address of the call.
static void by_argument(void) {
    struct sock_filter f[] = {LOAD(nr),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 2, 0),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 1, 0),
                              ALLOW,
                              LOAD(args[0]),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIGUSR2, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
                              ALLOW};
    TRY(install(f, COUNT(f), 0));
    for (int i = 0; i < 2; i++)
        say("getuid %s %s, rt_sigaction %s %s", answer(SYS_getuid, 1, 0), answer(SYS_getuid, SIGUSR2, 0),
            answer(SYS_rt_sigaction, SIGUSR1, 0), answer(SYS_rt_sigaction, SIGUSR2, 0));
}
static long NOINLINE from_here(long nr) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(nr) : "rcx", "r11", "memory");
    return r;
}
static void by_address(void) { // code that is not in the lower or the upper half of this program
    struct sock_filter f[] = {LOAD(nr),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 1, 0),
                              ALLOW,
                              LOAD(instruction_pointer),
                              BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)(uintptr_t)from_here, 0, 2),
                              BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (unsigned)(uintptr_t)from_here + 64, 1, 0),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
                              ALLOW};
    TRY(install(f, COUNT(f), 0));
    for (int i = 0; i < 2; i++)
        say("from the library %s, from here %ld", answer(SYS_getpid, 0, 0), from_here(SYS_getpid));
}
static volatile int trapped;
static void on_trap(int sig, siginfo_t *info, void *context) {
    trapped = info->si_syscall;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 77;
}
static void traps(void) {
    on_info(SIGSYS, on_trap, 0);
    TRY(on_number(SYS_geteuid, SECCOMP_RET_TRAP, 0));
    for (int i = 0; i < 2; i++) {
        trapped = 0;
        long r = syscall(SYS_geteuid);
        say("trap: %s, %ld", trapped == SYS_geteuid ? "geteuid" : "none", r);
    }
    reap("kill", CHILD({
             TRY(on_number(SYS_getgid, SECCOMP_RET_KILL_PROCESS, 0));
             syscall(SYS_getgid);
         }));
    TRY(on_number(SYS_getegid, SECCOMP_RET_LOG, SECCOMP_FILTER_FLAG_LOG));
    say("log: %s", answer(SYS_getegid, 0, 0));
}

static volatile int started, go;
static void *spins(void *arg) { // nothing but calls that ask, until the other thread's call has returned
    started = 1;
    while (!go)
        syscall(SYS_getpid), syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 8L);
    errno = 0;
    long r = syscall(SYS_getpid), e = errno, q = syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 8L);
    return (void *)(long)(r == -1 && e == EXDEV && q == -1 && errno == EXDEV ? 1 : 2);
}
static void brought(void) {
    struct sock_filter f[] = {LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 2, 0),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 1, 0), ALLOW,
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV)};
    pthread_t t[2] = {thread(spins, NULL), thread(spins, NULL)};
    while (!started)
        ;
    pause_ms(20);
    long r = install(f, COUNT(f), SECCOMP_FILTER_FLAG_TSYNC);
    go = 1;
    long first = (long)join(t[0]), second = (long)join(t[1]);
    say("TSYNC: %ld, the others %ld %ld", r, first, second);
}
static void *strict(void *arg) {
    syscall(SYS_getpid);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    write(1, "strict\n", 7);
    syscall(SYS_getpid); // ends this thread only
    write(1, "NOT strict\n", 11);
    return NULL;
}
int main(int argc, char **argv) {
    if (argc > 1)
        return ask(argv[1]), 0;
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    reap("by number", CHILD(by_number()));
    reap("by argument", CHILD(by_argument()));
    reap("by address", CHILD(by_address()));
    reap("traps", CHILD(traps()));
    for (long i = 0, n = scaled(10); i < n; i++)
        reap("brought", CHILD(brought()));
    reap("strict", CHILD({
             pthread_t t;
             pthread_create(&t, NULL, strict, NULL);
             pthread_join(t, NULL);
             say("goes on: %s", answer(SYS_getpid, 0, 0));
         }));
    return wrong;
}
