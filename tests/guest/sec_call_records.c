// What a program writes over the pages in which a monitor may keep what it has set, and what it is answered,
// harms nobody: it gets no signal action that sigaction(2) would not have set. The program has one thread.
// krun: static timeout=60
#include "guest.h"

#define AREA 0x6c0000100000UL // of the first vCPU; the second page of each area can be written
#define AREA_SIZE 0x8000UL
#define SET 49 // words: the bits of the records, and behind them the records, from number 0 on
#define TO 50

struct action {
    uintptr_t handler;
    unsigned long flags, restorer, mask;
};

static unsigned long random_word(void) {
    static unsigned long x = 88172645463325252UL;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}
static struct action get(int sig) {
    struct action a;
    syscall(SYS_rt_sigaction, sig, NULL, &a, 8);
    return a;
}
static void set_default(int sig, unsigned long flags) {
    struct action a = {0, flags, 0, 0};
    syscall(SYS_rt_sigaction, sig, &a, NULL, 8);
}
static sigjmp_buf back;
static void fault_handler(int sig) { siglongjmp(back, 1); }

// Writes records of its own; natively the first write ends it.
static void forge(int how) {
    if (sigsetjmp(back, 1))
        return;
    for (int area = 0; area < 3; area++) {
        volatile unsigned long *page = (void *)(AREA + area * AREA_SIZE + PAGE);
        for (int sig = 0; sig <= 64; sig++)
            for (int word = 0; word < 4; word++)
                page[TO + sig * 4 + word] = word == 0   ? (how ? random_word() & 1 : 0)
                                            : word == 1 ? random_word() & ~0x10000003UL
                                                        : random_word();
        page[SET] = how == 2 ? random_word() : ~0UL;
    }
}
static int sane(void) { // after any exit
    int bad = 0;
    for (int sig = 1; sig <= 64; sig++) {
        struct action a = get(sig);
        uintptr_t handler = sig == SIGSEGV   ? (uintptr_t)fault_handler
                            : sig == SIGUSR2 ? (uintptr_t)SIG_IGN
                                             : (uintptr_t)SIG_DFL;
        bad += a.handler != handler || (a.flags & ~0xdc000807UL) || (a.mask & (1UL << 8 | 1UL << 18));
        if (sig == SIGKILL || sig == SIGSTOP || sig == SIGCHLD || sig == SIGCONT || sig == SIGURG ||
            sig == SIGWINCH)
            bad += a.flags || a.mask || a.restorer;
    }
    return !bad;
}
int main(void) {
    for (int sig = 1; sig <= 64; sig++)
        set_default(sig, 0);
    on(SIGSEGV, fault_handler, SA_NODEFER);
    signal(SIGUSR2, SIG_IGN);
    int bad = 0;
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 8; i++) // calls that a monitor may complete itself
            syscall(SYS_getpid), get(SIGHUP);
        forge(round % 3);
        syscall(SYS_getppid);
        bad += !sane();
        set_default(1 + round % 8, round % 2 ? 0 : SA_NODEFER);
        forge(round % 3);
        bad += kill(getpid(), SIGUSR2) != 0;
        bad += !sane();
        pid_t c = fork();
        if (!c)
            _exit(!sane());
        int status;
        waitpid(c, &status, 0);
        bad += status != 0;
    }
    say("wrong actions: %d", bad);
    reap("default", CHILD(forge(1); raise(SIGUSR1)));
    reap("ignored", CHILD(forge(1); raise(SIGUSR2)));
    reap("killed", CHILD(forge(0); raise(SIGKILL)));
    EXPECT(!bad);
    return wrong;
}
