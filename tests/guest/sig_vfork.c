// The parent's signals come after the vfork child's end; a killed child lets it go on: vfork(2).
#include "guest.h"
static volatile int hits;
static void h(int s) { hits++; }
int main(int argc, char **argv) {
    pid_t me = getpid();
    on(SIGUSR1, h, 0);
    pid_t c = vfork();
    if (!c) {
        kill(me, SIGUSR1); // shared memory: the child would see the handler's work
        for (volatile int i = 0; i < 100000; i++)
            ;
        _exit(hits);
    }
    int s;
    while (waitpid(c, &s, 0) < 0)
        ;
    say("while the child ran %d, after %d", WEXITSTATUS(s), hits);
    c = vfork();
    if (!c) {
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
        _exit(0);
    }
    while (waitpid(c, &s, 0) < 0)
        ;
    say_status("killed child", s);
    return 0;
}
