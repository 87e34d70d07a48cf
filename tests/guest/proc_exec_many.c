// Fifty execs in a row by one process keep pid, descriptors and counter: execve(2).
// krun: timeout=60
#include "guest.h"
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 0;
    char next[20], pid[20];
    if (n == 50) {
        EXPECT(atoi(argv[2]) == getpid());
        say("descriptor offset %ld", (long)lseek(30, 0, SEEK_CUR));
        return wrong;
    }
    if (!n)
        dup2(file_with("f", ""), 30);
    write(30, "x", 1);
    sprintf(next, "%d", n + 1), sprintf(pid, "%d", getpid());
    execl("/proc/self/exe", "x", next, n ? argv[2] : pid, NULL);
    return 9;
}
