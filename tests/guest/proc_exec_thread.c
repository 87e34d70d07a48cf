// execve from a thread that is not the leader: the pid stays, all other threads are gone: execve(2).
#include "guest.h"
static char **saved;
static void *idle(void *a) {
    for (;;)
        pause();
}
static void *run(void *a) {
    char pid[20];
    sprintf(pid, "%d", getpid());
    pause_ms(10);
    execl(saved[0], "x", pid, NULL);
    _exit(9);
}
int main(int argc, char **argv) {
    if (argc > 1) {
        EXPECT(atoi(argv[1]) == getpid() && syscall(SYS_gettid) == getpid());
        int threads = 0;
        char *p = strstr(MUSTP(slurp("/proc/self/status")), "Threads:");
        sscanf(p, "Threads: %d", &threads);
        say("threads %d", threads);
        return wrong;
    }
    saved = argv;
    for (int i = 0; i < 3; i++)
        thread(idle, NULL);
    join(thread(run, NULL));
    return 9;
}
