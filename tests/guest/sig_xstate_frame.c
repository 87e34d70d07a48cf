// The frame's floating-point area has the magic words and the caller's registers; changes take effect.
#include "guest.h"
#include <ucontext.h>
static void h(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    unsigned char *fp = (void *)u->uc_mcontext.fpregs;
    unsigned *sw = (unsigned *)(fp + 464); // sw_reserved: magic1, extended size
    say("aligned %d, magic %x, mxcsr %x", (uintptr_t)fp % 64 == 0, sw[0], *(unsigned *)(fp + 24));
    if (sw[0] == 0x46505853)
        say("magic at the end %x", *(unsigned *)(fp + sw[1] - 4));
    double *xmm0 = (double *)(fp + 160);
    say("xmm0 %g", *xmm0);
    *xmm0 = 9.75;
}
int main(int argc, char **argv) {
    on_info(SIGUSR1, h, 0);
    double in = 2.5, out;
    long pid = getpid();
    __asm__ volatile("movsd %1,%%xmm0; mov $62,%%eax; mov %2,%%rdi; mov $10,%%esi; syscall; movsd %%xmm0,%0"
                     : "=m"(out)
                     : "m"(in), "m"(pid)
                     : "rax", "rdi", "rsi", "rcx", "r11", "xmm0", "memory");
    say("after %g", out);
    return 0;
}
