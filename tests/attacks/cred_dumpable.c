// A process that has changed its ids and changed them back stays undumpable (commit_creds() in kernel/cred.c): another process
// of the same user without CAP_SYS_PTRACE must not read its environment.
#include "attack.h"
#include <sys/fsuid.h>

static char secret[] = "SECRET=x";

static void change(int way) {
    switch (way) {
    case 0:
        if (seteuid(1000) < 0 || seteuid(0) < 0)
            attack_broken("seteuid");
        break;
    case 1:
        setfsuid(1000), setfsuid(0);
        break;
    default:
        setfsgid(1000), setfsgid(0);
    }
}

int main(void) {
    putenv(secret);
    for (int way = 0; way < 3; way++) {
        int ready[2];
        char path[64], text[256];
        if (pipe(ready) < 0)
            attack_broken("pipe");
        pid_t child = fork();
        if (child == 0) {
            change(way);
            write(ready[1], "r", 1);
            pause();
        }
        read(ready[0], text, 1);
        snprintf(path, sizeof path, "/proc/%d/environ", (int)child);
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) > 0)
            attack_won("the environment of a process that has changed its ids (%d)", way);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    attack_lost();
}
