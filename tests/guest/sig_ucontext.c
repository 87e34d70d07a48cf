// A handler changes registers in its ucontext; they take effect on return: sigreturn(2), getcontext(3).
// krun: static
#include "guest.h"
#include <ucontext.h>
extern char here[], there[];
static void h(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    greg_t *g = u->uc_mcontext.gregs;
    say("rip at instruction %d, rbx %lld, trap %lld, error %lld, cr2 %lld", g[REG_RIP] == (greg_t)here,
        g[REG_RBX], g[REG_TRAPNO], g[REG_ERR], g[REG_CR2]);
    g[REG_RIP] = (greg_t)there;
    g[REG_RBX] = 4242, g[REG_R15] = 77, g[REG_EFL] |= 1; // carry
}
int main(int argc, char **argv) {
    on_info(SIGSEGV, h, 0);
    long rbx = 1234, r15 = 15, carry;
    __asm__ volatile("mov %3,%%rbx; mov %4,%%r15; clc; mov $24,%%eax\n"
                     ".globl here,there\nhere: mov %%eax,(%%rax)\n ud2\nthere: setc %%al; movzx %%al,%%eax; "
                     "mov %%rax,%2; mov %%rbx,%0; mov %%r15,%1"
                     : "=m"(rbx), "=m"(r15), "=m"(carry)
                     : "m"(rbx), "m"(r15)
                     : "rax", "rbx", "r15", "memory", "cc");
    say("rbx %ld, r15 %ld, carry %ld", rbx, r15, carry);
    return 0;
}
