// krun: only=static
// An execve under limits that leave no room for the new program: refused, or death by a signal, never an exit
// status of anybody's.
#include "guest.h"
#include <sys/resource.h>
int main(int argc, char **argv) {
    int strange = 0;
    if (argc > 1)
        return 0;
    for (int i = 0; i < 2; i++)
        for (rlim_t limit = 1; limit < (rlim_t)1 << 27; limit *= 4) {
            pid_t pid = fork();
            if (pid == 0) {
                setrlimit(i ? RLIMIT_DATA : RLIMIT_AS, &(struct rlimit){limit, limit});
                execl(argv[0], argv[0], "again", NULL);
                _exit(0);
            }
            int s;
            waitpid(pid, &s, 0);
            strange += WIFEXITED(s) && WEXITSTATUS(s) != 0;
        }
    say("strange ends: %d", strange);
    return 0;
}
