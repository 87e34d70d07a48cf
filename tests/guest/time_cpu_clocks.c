// CPU-time clocks of other threads and processes: clock_getcpuclockid(3).
#include "guest.h"
static volatile int stop;
static void *run(void *a) {
    while (!stop)
        ;
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t t = thread(run, NULL);
    clockid_t c, p;
    MUST(pthread_getcpuclockid(t, &c) ? -1 : 0), MUST(clock_getcpuclockid(0, &p) ? -1 : 0);
    long long a = now_ns(c), b;
    do
        pause_ms(5);
    while ((b = now_ns(c)) - a < 20000000);
    EXPECT(b > a && now_ns(p) >= b);
    EXPECT(now_ns(CLOCK_THREAD_CPUTIME_ID) > 0);
    stop = 1, join(t);
    pid_t child = CHILD(pause());
    EXPECT(clock_getcpuclockid(child, &p) == 0 && now_ns(p) >= 0);
    kill(child, SIGKILL), waitpid(child, NULL, 0);
    EXPECT(clock_getcpuclockid(99999999, &p) == ESRCH);
    return wrong;
}
