// A dynamic program has PT_INTERP and AT_BASE, the loader's ELF header; a static one neither: ld.so(8).
// krun: static static-pie musl
#include "guest.h"
#include <elf.h>
#include <sys/auxv.h>
int main(int argc, char **argv) {
    Elf64_Phdr *h = (void *)getauxval(AT_PHDR);
    int interp = 0;
    for (unsigned i = 0; i < getauxval(AT_PHNUM); i++)
        interp += h[i].p_type == PT_INTERP;
    say("interpreter %d", interp);
    char *base = (char *)getauxval(AT_BASE);
    say("base %d", base != 0);
    if (base && interp)
        EXPECT(!memcmp(base, ELFMAG, SELFMAG));
    return wrong;
}
