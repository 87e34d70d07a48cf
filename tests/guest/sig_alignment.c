// With the AC flag set a misaligned access is SIGBUS, BUS_ADRALN; movaps faults in any case: sigaction(2).
#include "guest.h"
#include <ucontext.h>
static char bytes[16] __attribute__((aligned(16)));
static volatile int hits, code;
static void h(int s, siginfo_t *i, void *c) { // AC is still set in here: aligned accesses only
    ((ucontext_t *)c)->uc_mcontext.gregs[REG_EFL] &= ~0x40000L;
    hits++, code = i->si_code;
}
int main(int argc, char **argv) {
    on_info(SIGBUS, h, 0);
    __asm__ volatile(
        "sub $128,%%rsp; pushf; orl $0x40000,(%%rsp); popf; mov 1(%0),%%eax; add $128,%%rsp" ::"r"(bytes)
        : "rax", "memory", "cc");
    say("hits %d, %s", hits, code_name(SIGBUS, code));
    CATCH(__asm__ volatile("movaps 8(%0),%%xmm0" ::"r"(bytes) : "xmm0")); // #GP
    say_fault("movaps", NULL);
    return 0;
}
