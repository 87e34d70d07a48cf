// Addresses differ from start to start; personality(ADDR_NO_RANDOMIZE) stops that: personality(2).
#include "guest.h"
#include <sys/personality.h>
int main(int argc, char **argv) {
    if (argc > 1) {
        uintptr_t where[3] = {(uintptr_t)&argc, (uintptr_t)&main, (uintptr_t)pages(1)};
        write(3, where, sizeof(where));
        return 0;
    }
    for (int fixed = 0; fixed < 2; fixed++) {
        uintptr_t seen[8][3];
        for (int i = 0; i < 8; i++) {
            int p[2];
            MUST(pipe(p));
            pid_t pid = CHILD({
                if (fixed)
                    personality(ADDR_NO_RANDOMIZE);
                dup2(p[1], 3);
                execl(argv[0], argv[0], "x", NULL);
                _exit(9);
            });
            close(p[1]);
            MUST(read(p[0], seen[i], sizeof(seen[i])));
            close(p[0]);
            waitpid(pid, NULL, 0);
        }
        int differ[3] = {0};
        for (int i = 1; i < 8; i++)
            for (int k = 0; k < 3; k++)
                differ[k] |= seen[i][k] != seen[0][k];
        say("%s: stack %s, program %s, mmap %s", fixed ? "no randomisation" : "default",
            differ[0] ? "varies" : "same", differ[1] ? "varies" : "same", differ[2] ? "varies" : "same");
    }
    return 0;
}
