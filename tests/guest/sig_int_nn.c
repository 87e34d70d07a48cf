// int 0x80 of a 64-bit program and other software interrupts fault: signal(7).
#include "guest.h"
int main(int argc, char **argv) {
    int caught = 0;
    CATCH(__asm__ volatile("int $0x20"));
    say("int 0x20: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    CATCH(__asm__ volatile("int $0x0e"));
    say("int 0x0e: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    CATCH(__asm__ volatile("int $0xfe"));
    say("int 0xfe: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    long r = 20; // getpid of the 32-bit table, where the kernel has one
    CATCH(__asm__ volatile("int $0x80" : "+a"(r)::"memory", "r8", "r9", "r10", "r11"));
    caught = fault.sig == SIGSEGV || r == getpid() || r == -ENOSYS;
    EXPECT(caught);
    return wrong;
}
