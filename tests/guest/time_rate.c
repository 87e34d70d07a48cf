// The clocks run at the right rate: a sleep of 60 ms is 60 ms on each, CPU time hardly moves: nanosleep(2).
#include "guest.h"
int main(int argc, char **argv) {
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW};
    long long before[4], cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < 4; i++)
        before[i] = now_ns(clocks[i]);
    pause_ms(60);
    for (int i = 0; i < 4; i++) {
        long long d = now_ns(clocks[i]) - before[i];
        say("clock %d: %d", i, d >= 59500000 && d < 5000000000);
    }
    cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    for (int i = 0; i < 20 && cpu >= 55000000;
         i++) { // an emulated processor counts what its host takes from it
        cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        pause_ms(60);
        cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    }
    EXPECT(cpu < 55000000);
    struct timespec t = {0, 20000000}, abs;
    long long a = now_ns(CLOCK_MONOTONIC);
    clock_gettime(CLOCK_MONOTONIC, &abs), abs.tv_nsec += 20000000, abs.tv_sec += abs.tv_nsec / 1000000000,
        abs.tv_nsec %= 1000000000;
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &abs, NULL));
    EXPECT(now_ns(CLOCK_MONOTONIC) - a >= 20000000);
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){1, 0}, NULL));
    t.tv_nsec = -1, TRY(nanosleep(&t, NULL)), TRY(nanosleep((void *)8, NULL));
    SHOW(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL) == EINVAL);
    return wrong;
}
