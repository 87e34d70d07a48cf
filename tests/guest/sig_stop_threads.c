// SIGSTOP stops all threads of a process, SIGCONT lets all run again: signal(7).
#include "guest.h"
static volatile int *tick;
static void *run(void *a) {
    for (volatile int *t = a;;)
        ++*t;
}
int main(int argc, char **argv) {
    int s;
    tick = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pid_t c = CHILD(for (long i = 1; i < 4; i++) thread(run, (void *)&tick[i * 16]); run((void *)tick));
    while (!tick[0] || !tick[16] || !tick[32] || !tick[48])
        sched_yield();
    for (int round = 0; round < 3; round++) {
        kill(c, SIGSTOP), waitpid(c, &s, WUNTRACED);
        int a[4] = {tick[0], tick[16], tick[32], tick[48]};
        pause_ms(15);
        say_status("process", s);
        say("running while stopped %d",
            a[0] != tick[0] || a[1] != tick[16] || a[2] != tick[32] || a[3] != tick[48]);
        kill(c, SIGCONT), waitpid(c, &s, WCONTINUED);
        while (a[0] == tick[0] || a[1] == tick[16] || a[2] == tick[32] || a[3] == tick[48])
            sched_yield();
    }
    kill(c, SIGTERM), reap("process", c);
    return 0;
}
