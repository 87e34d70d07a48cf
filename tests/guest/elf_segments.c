// Unusual segments that execve(2) accepts, and programs that cannot be mapped: load_elf_binary() and
// elf_load() in fs/binfmt_elf.c. A failure behind the point of no return is death by SIGSEGV (bprm_execve()
// in fs/exec.c).
#include "guest.h"
#include <elf.h>

#define BASE 0x10000000UL
#define SEEN (BASE + 0x3000) // the byte that the program ends with

static struct {
    Elf64_Ehdr header;
    Elf64_Phdr segment[3];
    char room[4096 - sizeof(Elf64_Ehdr) - 3 * sizeof(Elf64_Phdr)];
    unsigned char code[4096];
    unsigned char data[4096];
} f;

static void good(void) {
    // movzbl SEEN, %edi; mov $231, %eax; syscall
    static const unsigned char code[] = {0x0f, 0xb6, 0x3c, 0x25, 0, 0x30, 0, 0x10,
                                         0xb8, 231,  0,    0,    0, 0x0f, 5};
    memset(&f, 0, sizeof f);
    memcpy(f.code, code, sizeof code);
    memset(f.data, 42, sizeof f.data);
    f.header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                            .e_type = ET_EXEC,
                            .e_machine = EM_X86_64,
                            .e_version = EV_CURRENT,
                            .e_entry = BASE + 0x1000,
                            .e_phoff = sizeof(Elf64_Ehdr),
                            .e_ehsize = sizeof(Elf64_Ehdr),
                            .e_phentsize = sizeof(Elf64_Phdr),
                            .e_phnum = 3};
    f.segment[0] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = BASE, .p_filesz = 0x2000, .p_memsz = 0x2000};
    f.segment[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                .p_flags = PF_R | PF_W,
                                .p_offset = 0x2000,
                                .p_vaddr = BASE + 0x3000,
                                .p_filesz = 0x1000,
                                .p_memsz = 0x1000};
    f.segment[2] =
        (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = BASE + 0x8000, .p_memsz = 0x1000};
    for (int i = 0; i < 3; i++)
        f.segment[i].p_align = 4096;
}

static void attempt(const char *what, rlim_t space) {
    int fd = MUST(open("odd", O_RDWR | O_CREAT | O_TRUNC, 0755));
    EXPECT(write(fd, &f, sizeof f) == sizeof f);
    close(fd);
    pid_t p = CHILD({
        struct rlimit none = {0, 0}, limit = {space, space};
        MUST(setrlimit(RLIMIT_CORE, &none));
        if (space)
            MUST(setrlimit(RLIMIT_AS, &limit));
        execl("./odd", "odd", NULL);
        say("%s: %s", what, errno_name(errno));
    });
    reap(what, p);
    unlink("odd");
}

int main(int argc, char **argv) {
#define ATTEMPT(what, space, change)                                                                         \
    good();                                                                                                  \
    change;                                                                                                  \
    attempt(what, space)
    Elf64_Phdr *s = f.segment, swap;
    ATTEMPT("usual", 0, );
    ATTEMPT("the offset of an empty segment", 0, s[2].p_offset = 0x123);
    ATTEMPT("a far offset of an empty segment", 0, s[2].p_offset = 1UL << 63);
    ATTEMPT("descending addresses", 0, (swap = s[1], s[1] = s[2], s[2] = swap));
    ATTEMPT("zeros over data", 0, s[2].p_vaddr = BASE + 0x3000);
    ATTEMPT("zeros over a part of a page of data", 0, (s[2].p_vaddr = BASE + 0x3800, s[2].p_memsz = 0x100));
    ATTEMPT("data over data", 0,
            (s[2].p_vaddr = BASE + 0x3000, s[2].p_filesz = 0x1000, s[2].p_offset = 0x1000));
    ATTEMPT(
        "data in the middle of the text", 0,
        (s[1].p_vaddr = BASE, s[1].p_memsz = 0x1000, s[2].p_vaddr = BASE + 0x3000, s[2].p_memsz = 0x1000));
    ATTEMPT("more than RLIMIT_AS", 1UL << 30, s[2].p_memsz = 1UL << 40);
    ATTEMPT("no room for a stack", 64 << 10, );
    return wrong;
}
