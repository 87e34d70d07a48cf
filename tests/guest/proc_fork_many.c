// A hundred children at once, each with its own status; all are collected: wait(2).
// krun: timeout=60
#include "guest.h"
int main(int argc, char **argv) {
    pid_t pid[100];
    int status, codes[100] = {0}, n = 0;
    for (int i = 0; i < 100; i++)
        pid[i] = CHILD(_exit(i));
    for (pid_t p; (p = wait(&status)) > 0; n++)
        for (int i = 0; i < 100; i++)
            if (pid[i] == p && WIFEXITED(status) && WEXITSTATUS(status) == i)
                codes[i]++;
    int right = 0;
    for (int i = 0; i < 100; i++)
        right += codes[i] == 1;
    say("collected %d, right %d, then %s", n, right, errno_name(errno));
    return 0;
}
