// The bits of personality(2) that decide where the kernel puts a program: each alone, all together, over an
// execve. The payload's own view of them must stay what it set.
#include "attack.h"
#include <sys/personality.h>

int main(int argc, char **argv) {
    static const unsigned long bits[] = {ADDR_COMPAT_LAYOUT,
                                         ADDR_NO_RANDOMIZE,
                                         ADDR_LIMIT_3GB,
                                         ADDR_LIMIT_32BIT,
                                         MMAP_PAGE_ZERO,
                                         ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE | ADDR_LIMIT_3GB |
                                             ADDR_LIMIT_32BIT | MMAP_PAGE_ZERO};
    attack_check_native();
    if (argc > 1) {
        unsigned long want = strtoul(argv[1], NULL, 16);
        usleep(60000);
        return (unsigned long)personality(0xffffffff) == want ? 0 : 3;
    }
    for (unsigned i = 0; i < sizeof bits / sizeof *bits; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            char text[32];
            if (personality(bits[i]) < 0)
                _exit(0);
            snprintf(text, sizeof text, "%lx", bits[i]);
            execl("/proc/self/exe", "layout", text, NULL);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            attack_won("personality %lx: the next program ends with status %x", bits[i], status);
    }
    attack_lost();
}
