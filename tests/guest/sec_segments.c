// Segment registers: loading null, user and kernel selectors, reading them, verr, sgdt: no way up: Intel SDM.
#include "guest.h"
int main(int argc, char **argv) {
    int raised = 0, faulted = 0;
    for (volatile unsigned sel = 0; sel < 256; sel += 1) {
        CATCH({
            unsigned cs = 0;
            __asm__ volatile("mov %0,%%es; mov %%cs,%1" ::"r"(sel), "r"(cs) : "memory");
        });
        faulted += fault.sig == SIGSEGV;
        __asm__ volatile("xor %%eax,%%eax; mov %%eax,%%es" ::: "eax");
    }
    EXPECT(faulted > 128);
    for (volatile unsigned sel = 0; sel < 64; sel += 1) { // far returns to every selector but the own one
        unsigned cs;
        __asm__ volatile("mov %%cs,%0" : "=r"(cs));
        if (sel == cs || (sel & 3) == 3)
            continue;
        CATCH(__asm__ volatile("push %0; lea 1f(%%rip),%%rax; push %%rax; lretq; 1:" ::"r"((unsigned long)sel)
                               : "rax", "memory"));
        unsigned now;
        __asm__ volatile("mov %%cs,%0" : "=r"(now));
        raised += (now & 3) != 3;
    }
    say("raised %d", raised);
    unsigned long flags;
    __asm__ volatile("pushf; orl $0x3000,(%%rsp); popf; pushf; pop %0" : "=r"(flags)::"memory", "cc");
    say("IOPL %lu", flags >> 12 & 3);
    return wrong;
}
