// vfork(2): the parent waits, memory is shared, exec or _exit lets it go on.
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    if (argc > 1)
        _exit(atoi(argv[1]));
    volatile int shared = 1;
    pid_t me = getpid(), c = vfork();
    if (!c) {
        shared = 2 + (getppid() == me);
        _exit(3);
    }
    say("shared %d", shared);
    reap("exit", c);
    if (!(c = vfork())) {
        execl(argv[0], argv[0], "44", NULL);
        _exit(9);
    }
    reap("exec", c);
    if (!(c = vfork())) {
        execl("/nowhere", "x", NULL);
        shared = errno;
        _exit(127);
    }
    say("error seen by the parent: %s", errno_name(shared));
    reap("failed exec", c);
    return 0;
}
