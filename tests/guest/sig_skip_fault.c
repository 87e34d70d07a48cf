// A handler skips the faulting instruction by advancing RIP; a thousand times: sigaction(2).
// krun: static
#include "guest.h"
#include <ucontext.h>
static volatile int hits;
static void h(int s, siginfo_t *i, void *c) {
    hits += i->si_addr == (void *)16;
    ((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP] += 7; // movl $5,(%rax) has six bytes, with the nop seven
}
int main(int argc, char **argv) {
    on_info(SIGSEGV, h, 0);
    int n = scaled(1000);
    for (int i = 0; i < n; i++)
        __asm__ volatile("movl $5,(%0); nop" ::"a"(16L) : "memory");
    EXPECT(hits == n);
    return wrong;
}
