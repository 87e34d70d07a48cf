// AT_SYSINFO_EHDR names an ELF object whose __vdso_clock_gettime works: vdso(7).
// krun: static musl
#include "guest.h"
#include <elf.h>
#include <sys/auxv.h>
int main(int argc, char **argv) {
    char *base = (char *)getauxval(AT_SYSINFO_EHDR);
    EXPECT(base != 0);
    EXPECT(!memcmp(base, ELFMAG, SELFMAG));
    Elf64_Ehdr *e = (void *)base;
    Elf64_Phdr *h = (void *)(base + e->e_phoff);
    Elf64_Dyn *d = NULL;
    long bias = 0;
    for (int i = 0; i < e->e_phnum; i++) {
        if (h[i].p_type == PT_LOAD)
            bias = (long)(base + h[i].p_offset - h[i].p_vaddr);
        if (h[i].p_type == PT_DYNAMIC)
            d = (void *)(base + h[i].p_offset);
    }
    Elf64_Sym *symbols = NULL;
    char *names = NULL;
    for (; d && d->d_tag; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = (void *)(bias + d->d_un.d_ptr);
        if (d->d_tag == DT_STRTAB)
            names = (void *)(bias + d->d_un.d_ptr);
    }
    EXPECT(symbols && names && (char *)symbols < names);
    int found = 0;
    for (Elf64_Sym *s = symbols; (char *)(s + 1) <= names; s++)
        if (s->st_name < 4096 && !strcmp(names + s->st_name, "__vdso_clock_gettime")) {
            int (*gettime)(int, struct timespec *) = (void *)(bias + s->st_value);
            struct timespec one, two;
            syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &one);
            EXPECT(gettime(CLOCK_MONOTONIC, &two) == 0);
            EXPECT(two.tv_sec - one.tv_sec <= 60 && two.tv_sec >= one.tv_sec);
            found++;
        }
    say("found %d", found);
    return wrong;
}
