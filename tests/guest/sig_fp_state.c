// x87, SSE and MXCSR state is kept over a handler that changes it, and the handler begins with a clean one.
// krun: static
#include "guest.h"
static volatile int hits;
static unsigned csr_in_handler;
static void h(int s) {
    unsigned csr = 0x1f80 | 0x6000;
    __asm__ volatile("stmxcsr %0; ldmxcsr %1; xorps %%xmm0,%%xmm0; xorps %%xmm7,%%xmm7; xorps "
                     "%%xmm15,%%xmm15; fninit; fldpi"
                     : "=m"(csr_in_handler)
                     : "m"(csr)
                     : "xmm0", "xmm7", "xmm15");
    hits++;
}
int main(int argc, char **argv) {
    on(SIGUSR1, h, 0);
    double in[3] = {1.5, -2.25, 1e300}, out[3];
    long double x = 3.0L, y;
    unsigned csr = 0x1f80 | 0x2000, after;
    unsigned short cw = 0x0f7f, cw_after;
    long pid = getpid();
    __asm__ volatile(
        "ldmxcsr %6; fldcw %8; fldt %4; movsd %5,%%xmm0; movsd 8+%5,%%xmm7; movsd 16+%5,%%xmm15\n"
        "mov $62,%%eax; mov %9,%%rdi; mov $10,%%esi; syscall\n" // kill(pid, SIGUSR1)
        "movsd %%xmm0,%0; movsd %%xmm7,8+%0; movsd %%xmm15,16+%0; fstpt %1; stmxcsr %2; fnstcw %3; fninit"
        : "=m"(out), "=m"(y), "=m"(after), "=m"(cw_after)
        : "m"(x), "m"(in), "m"(csr), "m"(csr), "m"(cw), "m"(pid)
        : "rax", "rdi", "rsi", "rcx", "r11", "xmm0", "xmm7", "xmm15", "memory");
    say("hits %d: %g %g %g, x87 %Lg, mxcsr %x, control %x", hits, out[0], out[1], out[2], y, after & ~0x3fU,
        cw_after);
    say("mxcsr in the handler %x", csr_in_handler & ~0x3fU);
    return 0;
}
