// SIGSTOP, SIGTSTP and SIGCONT: stopped children do not run, sleeps are restarted: signal(7).
#include "guest.h"
static volatile int *tick;
static void h(int s) { tick[100]++; }
int main(int argc, char **argv) {
    int s;
    tick = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pid_t c = CHILD({
        on(SIGCONT, h, 0);
        for (;;)
            ++*tick;
    });
    while (!*tick)
        ;
    kill(c, SIGSTOP);
    waitpid(c, &s, WUNTRACED), say_status("child", s);
    int before = *tick;
    pause_ms(20);
    EXPECT(*tick == before);
    kill(c, SIGCONT), waitpid(c, &s, WCONTINUED), say_status("child", s);
    while (*tick == before)
        ;
    say("handler of SIGCONT ran %d", tick[100]);
    kill(c, SIGKILL), reap("child", c);
    c = CHILD({
        long long t = now_ns(CLOCK_MONOTONIC);
        struct timespec d = {0, 150000000};
        TRY(nanosleep(&d, NULL)); // restarted by the kernel
        EXPECT(now_ns(CLOCK_MONOTONIC) - t >= 150000000);
        struct pollfd none;
        TRY(poll(&none, 0, 100));
    });
    pause_ms(20), kill(c, SIGSTOP), waitpid(c, &s, WUNTRACED), kill(c, SIGCONT);
    reap("sleeper", c);
    c = CHILD(raise(SIGTSTP); _exit(4));
    waitpid(c, &s, WUNTRACED), say_status("child", s), kill(c, SIGCONT), reap("child", c);
    return wrong;
}
