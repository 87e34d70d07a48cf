// Undefined instructions, int3, single step: SIGILL and SIGTRAP with codes: sigaction(2).
// krun: static
#include "guest.h"
#include <ucontext.h>
static volatile int steps;
static void step(int s, siginfo_t *i, void *c) {
    if (++steps == 10)
        ((ucontext_t *)c)->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
}
extern char at_ud2[], at_int3[];
int main(int argc, char **argv) {
    CATCH(__asm__ volatile(".globl at_ud2\nat_ud2: ud2"));
    say("ud2: %s %s, at it %d", signal_name(fault.sig), code_name(fault.sig, fault.code),
        fault.addr == at_ud2);
    CATCH(__asm__ volatile(".byte 0x0f,0xff,0xc0"));
    say("ud0: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    CATCH(__asm__ volatile(".byte 0xf0,0x90")); // lock nop
    say("lock nop: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    CATCH(__asm__ volatile("int3"));
    say("int3: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    on_info(SIGTRAP, step, 0);
    __asm__ volatile(
        "pushf; orl $0x100,(%%rsp); popf; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop" ::
            : "cc", "memory");
    say("single steps %d", steps);
    return 0;
}
