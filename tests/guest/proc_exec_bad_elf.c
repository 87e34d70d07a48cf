// Damaged ELF files are refused with ENOEXEC (or kill, where exec is past the point of no return): execve(2).
#include "guest.h"
#include <elf.h>
static void attempt(const char *what, const char *image, size_t size) {
    int fd = MUST(open("bad", O_RDWR | O_CREAT | O_TRUNC, 0755));
    write(fd, image, size);
    close(fd);
    execl("./bad", "bad", NULL);
    say("%s: %s", what, errno_name(errno));
    unlink("bad");
}
int main(int argc, char **argv) {
    static char image[70000], copy[70000];
    int fd = MUST(open(argv[0], O_RDONLY));
    size_t size = read(fd, image, sizeof(image));
    close(fd);
    Elf64_Ehdr *e = (void *)copy;
#define ATTEMPT(what, change)                                                                                \
    memcpy(copy, image, size);                                                                               \
    change;                                                                                                  \
    attempt(what, copy, size)
    ATTEMPT("wrong magic", copy[1] = 'X');
    ATTEMPT("machine", e->e_machine = EM_AARCH64);
    ATTEMPT("relocatable", e->e_type = ET_REL);
    ATTEMPT("core", e->e_type = ET_CORE);
    ATTEMPT("no headers", e->e_phnum = 0);
    ATTEMPT("header size", e->e_phentsize = 1);
    ATTEMPT("too many headers", e->e_phnum = 0xffff);
    memcpy(copy, image, size);
    attempt("only 64 bytes", copy, 64);
    attempt("only 20 bytes", copy, 20);
    ATTEMPT("interpreter missing",
            for (size_t i = 0; i < 4000; i++) if (!memcmp(copy + i, "/lib64/ld-", 10)) copy[i + 1] = 'X');
    return 0;
}
