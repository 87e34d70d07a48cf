// Port output from user code, to any port a monitor may use, is SIGSEGV and no system call: ioperm(2).
// krun: static
#include "guest.h"
static int faults(unsigned short port, int width, unsigned long rax) {
    if (width == 1)
        CATCH(__asm__ volatile("out %%al,%%dx" ::"d"(port), "a"(rax), "D"(1), "S"("forged\n") : "memory"));
    else if (width == 2)
        CATCH(__asm__ volatile("out %%ax,%%dx" ::"d"(port), "a"(rax), "D"(1), "S"("forged\n") : "memory"));
    else
        CATCH(__asm__ volatile("out %%eax,%%dx" ::"d"(port), "a"(rax), "D"(1), "S"("forged\n") : "memory"));
    return fault.sig == SIGSEGV && fault.code == SI_KERNEL && fault.addr == 0;
}
int main(int argc, char **argv) {
    CATCH(__asm__ volatile("out %%al,$0x7e" ::"a"(SYS_exit_group), "D"(66)));
    say("0x7e: %s %s", fault.sig ? signal_name(fault.sig) : "none",
        fault.sig ? code_name(fault.sig, fault.code) : "");
    CATCH(__asm__ volatile("in $0x7e,%%al" ::: "eax"));
    say("in 0x7e: %s", fault.sig ? signal_name(fault.sig) : "none");
    int bad = 0;
    for (volatile int port = 0; port < 256; port++)
        bad += !faults(port, 1, SYS_exit_group);
    for (volatile int port = 0; port < 65536; port += 251)
        bad += !faults(port, port % 3 == 0 ? 1 : port % 3 == 1 ? 2 : 4, SYS_write);
    say("ports that did not fault: %d", bad);
    return bad != 0;
}
