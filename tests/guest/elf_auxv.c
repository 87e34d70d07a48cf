// The auxiliary vector tells the truth: getauxval(3), ids, page size, program headers, name, cpu.
// krun: all
#include "guest.h"
#include <elf.h>
#include <sys/auxv.h>
#include <cpuid.h>
extern char **environ;
int main(int argc, char **argv) {
    EXPECT(getauxval(AT_PAGESZ) == (unsigned long)sysconf(_SC_PAGESIZE));
    EXPECT(getauxval(AT_CLKTCK) == (unsigned long)sysconf(_SC_CLK_TCK));
    EXPECT(getauxval(AT_UID) == getuid() && getauxval(AT_EUID) == geteuid());
    EXPECT(getauxval(AT_GID) == getgid() && getauxval(AT_EGID) == getegid());
    say("AT_SECURE %lu", getauxval(AT_SECURE));
    say("AT_PLATFORM %s", (char *)getauxval(AT_PLATFORM));
    EXPECT(!strcmp((char *)getauxval(AT_EXECFN), argv[0]));
    EXPECT(getauxval(AT_RANDOM) % 16 <= 15 && getauxval(AT_RANDOM) > (uintptr_t)&argc);
    EXPECT(getauxval(AT_SYSINFO_EHDR) % PAGE == 0);
    Elf64_Phdr *h = (void *)getauxval(AT_PHDR);
    EXPECT(getauxval(AT_PHENT) == sizeof(*h));
    EXPECT(getauxval(AT_PHNUM) > 3);
    int loads = 0, inside = 0, interp = 0;
    uintptr_t base = 0, entry = getauxval(AT_ENTRY);
    for (unsigned i = 0; i < getauxval(AT_PHNUM); i++)
        if (h[i].p_type == PT_PHDR)
            base = (uintptr_t)h - h[i].p_vaddr;
    for (unsigned i = 0; i < getauxval(AT_PHNUM); i++) {
        interp += h[i].p_type == PT_INTERP;
        loads += h[i].p_type == PT_LOAD;
        inside += h[i].p_type == PT_LOAD && (h[i].p_flags & PF_X) && entry - base >= h[i].p_vaddr &&
                  entry - base < h[i].p_vaddr + h[i].p_memsz;
    }
    if (base || interp) // a static program need not have PT_PHDR
        EXPECT(loads >= 2 && inside == 1);
    EXPECT(!interp == !getauxval(AT_BASE));
    unsigned a, b, c, d = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    d &= bit_FXSAVE | bit_SSE | bit_SSE2 | bit_CMOV;
    char **p = environ; // glibc's getauxval has an AT_HWCAP of its own making
    while (*p++)
        ;
    for (Elf64_auxv_t *v = (void *)p; v->a_type; v++)
        if (v->a_type == AT_HWCAP)
            EXPECT((v->a_un.a_val & d) == d);
    return wrong;
}
