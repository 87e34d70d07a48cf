// A forged frame for rt_sigreturn raises no privilege; nonsense kills: sigreturn(2).
#include "guest.h"
#include <ucontext.h>
static int what;
static void h(int s, siginfo_t *i, void *c) {
    greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs;
    if (what == 0)
        g[REG_EFL] |= 0x3000; // IOPL
    if (what == 1)
        g[REG_CSGSFS] = (g[REG_CSGSFS] & ~0xffffL) | 0x10; // a kernel's code segment
    if (what == 2)
        g[REG_RIP] = 0xffff888000000000;
    if (what == 3)
        g[REG_RSP] = 0x8000000000000000;
    if (what == 4)
        g[REG_EFL] &= ~0x200L; // interrupt flag
}
int main(int argc, char **argv) {
    static const char *const names[] = {"IOPL", "kernel segment", "kernel address", "bad stack",
                                        "interrupts off"};
    on_info(SIGUSR1, h, 0);
    for (what = 0; what < 5; what++)
        reap(names[what], CHILD({
                 unsigned long f;
                 unsigned cs;
                 raise(SIGUSR1);
                 __asm__ volatile("pushf; pop %0; mov %%cs,%1" : "=r"(f), "=r"(cs)::"memory");
                 say("alive: IOPL %lu, IF %lu, ring %u", f >> 12 & 3, f >> 9 & 1, cs & 3);
             }));
    return 0;
}
