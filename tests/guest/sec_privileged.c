// Privileged instructions fault with SIGSEGV and change nothing: Intel SDM volume 3, privileged instructions.
// krun: static
#include "guest.h"
#define TRAP(name, ...)                                                                                      \
    CATCH(__asm__ volatile(__VA_ARGS__));                                                                    \
    say("%s: %s %s", name, fault.sig ? signal_name(fault.sig) : "none",                                      \
        fault.sig ? code_name(fault.sig, fault.code) : "")
int main(int argc, char **argv) {
    long v = 0x1000;
    char d[16] = "";
    TRAP("hlt", "hlt");
    TRAP("cli", "cli");
    TRAP("sti", "sti");
    TRAP("mov from cr0", "mov %%cr0,%0" : "=r"(v));
    TRAP("mov to cr0", "mov %0,%%cr0" ::"r"(v));
    TRAP("mov to cr3", "mov %0,%%cr3" ::"r"(v));
    TRAP("mov from cr3", "mov %%cr3,%0" : "=r"(v));
    TRAP("mov to cr4", "mov %0,%%cr4" ::"r"(v));
    TRAP("mov to cr8", "mov %0,%%cr8" ::"r"(v));
    TRAP("mov to dr7", "mov %0,%%dr7" ::"r"(v));
    TRAP("rdmsr", "rdmsr" ::"c"(0xc0000080) : "eax", "edx");
    TRAP("wrmsr LSTAR", "wrmsr" ::"c"(0xc0000082), "a"(0), "d"(0));
    TRAP("lgdt", "lgdt %0" ::"m"(d));
    TRAP("lidt", "lidt %0" ::"m"(d));
    TRAP("lldt", "lldt %%ax" ::"a"(0));
    TRAP("ltr", "ltr %%ax" ::"a"(0x28));
    TRAP("invlpg", "invlpg (%0)" ::"r"(d));
    TRAP("invd", "invd");
    TRAP("wbinvd", "wbinvd");
    TRAP("clts", "clts");
    TRAP("swapgs", "swapgs");
    TRAP("sysret", "sysretq" ::"c"(0), "r"(v));
    TRAP("xsetbv", "xsetbv" ::"c"(0), "a"(7), "d"(0));
    TRAP("in", "in $0x60,%%al" ::: "eax");
    TRAP("out dx", "out %%eax,%%dx" ::"d"(0xcf8), "a"(0));
    TRAP("insb", "insb" ::"D"(d), "d"(0x3f8) : "memory");
    TRAP("rep outsb", "rep outsb" ::"S"(d), "d"(0x3f8), "c"(4));
    say("still here");
    return 0;
}
