// A fault and a signal from a timer at the same moment: each fault is reported once, at its own instruction,
// and never in the other signal's handler. sigaction(2)
#include "guest.h"
#include <ucontext.h>
extern const char bad_insn[], bad_load[], bad_insn_end[], bad_load_end[];
static volatile int faults, elsewhere, alarms;
static void on_fault(int sig, siginfo_t *info, void *context) {
    greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    const char *at = sig == SIGILL ? bad_insn : bad_load, *end = sig == SIGILL ? bad_insn_end : bad_load_end;
    if (*rip != (greg_t)at) {
        elsewhere++;
        say("%s elsewhere", signal_name(sig));
        _exit(1);
    }
    faults++;
    *rip = (greg_t)end;
}
static void on_alarm(int sig) { alarms++; }
int main(int argc, char **argv) {
    struct itimerval fast = {{0, 400}, {0, 400}}, stop = {{0, 0}, {0, 0}};
    on_info(SIGILL, on_fault, 0);
    on_info(SIGSEGV, on_fault, 0);
    on(SIGALRM, on_alarm, 0);
    MUST(setitimer(ITIMER_REAL, &fast, NULL));
    int n = scaled(6000);
    for (int i = 0; i < n; i++)
        __asm__ volatile(
            "bad_insn: ud2; bad_insn_end: xor %%eax,%%eax; bad_load: mov (%%rax),%%rax; bad_load_end:"
            :
            :
            : "rax", "cc", "memory");
    MUST(setitimer(ITIMER_REAL, &stop, NULL));
    EXPECT(faults == 2 * n && elsewhere == 0 && alarms > 0);
    return wrong;
}
