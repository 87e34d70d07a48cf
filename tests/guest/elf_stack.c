// The initial stack: aligned; argv, envp, auxv in a row, strings above: System V ABI, execve(2).
// krun: all args=one,two
#include "guest.h"
#include <elf.h>
extern char **environ;
int main(int argc, char **argv) {
    EXPECT((uintptr_t)(argv - 1) % 16 == 0);
    EXPECT((long)(intptr_t)argv[-1] == argc);
    EXPECT(argv[argc] == NULL && argv + argc + 1 == environ);
    char **end = environ;
    while (*end)
        end++;
    Elf64_auxv_t *aux = (void *)(end + 1);
    int seen = 0;
    for (; aux->a_type != AT_NULL; aux++)
        seen += aux->a_type == AT_PAGESZ || aux->a_type == AT_ENTRY || aux->a_type == AT_PHDR;
    say("known entries %d", seen);
    EXPECT(argc == 3 && argv[0] > (char *)aux && argv[1] == argv[0] + strlen(argv[0]) + 1);
    EXPECT(environ[0] == argv[argc - 1] + strlen(argv[argc - 1]) + 1);
    return wrong;
}
