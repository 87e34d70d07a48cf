// After vfork the parent's stack and registers are its own again: vfork(2).
#include "guest.h"
static NOINLINE int work(int depth) {
    volatile char room[500];
    memset((void *)room, depth, sizeof(room));
    return depth ? work(depth - 1) + room[3] - depth : 1;
}
int main(int argc, char **argv) {
    long a = 11, b = 22, c = 33;
    int bad = 0;
    for (int i = 0; i < 50; i++) {
        pid_t pid = vfork();
        if (!pid) {
            work(20);
            _exit(i);
        }
        int status;
        waitpid(pid, &status, 0);
        bad += WEXITSTATUS(status) != i || a != 11 || b != 22 || c != 33;
    }
    say("wrong %d", bad);
    return 0;
}
