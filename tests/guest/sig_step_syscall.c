// Single stepping goes over system calls and the trap flag never gets lost: sigaction(2).
#include "guest.h"
#include <ucontext.h>
static volatile int steps;
static long first, last;
static void step(int s, siginfo_t *i, void *c) {
    long at = ((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP];
    if (!steps++)
        first = at;
    last = at;
    if (steps > 20)
        ((ucontext_t *)c)->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
}
int main(int argc, char **argv) {
    long pid;
    on_info(SIGTRAP, step, 0);
    __asm__ volatile("sub $128,%%rsp; pushf; orl $0x100,(%%rsp); popf; mov $39,%%eax; syscall; nop; pushf; "
                     "andl $~0x100,(%%rsp); popf; add $128,%%rsp"
                     : "=a"(pid)
                     :
                     : "rcx", "r11", "memory", "cc");
    EXPECT(pid == getpid());
    EXPECT(steps >= 5 && steps <= 7 && last > first && last - first < 40);
    return wrong;
}
