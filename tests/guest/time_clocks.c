// All clocks, by vDSO and by system call, never run backwards: clock_gettime(2).
// krun: static musl timeout=60
#include "guest.h"
int main(int argc, char **argv) {
    static const clockid_t clocks[] = {CLOCK_MONOTONIC,     CLOCK_REALTIME,           CLOCK_BOOTTIME,
                                       CLOCK_MONOTONIC_RAW, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
                                       CLOCK_TAI,           CLOCK_REALTIME_COARSE,    CLOCK_MONOTONIC_COARSE};
    for (size_t k = 0; k < COUNT(clocks); k++) {
        long back = 0, n = scaled(k < 2 ? 40000 : 2000);
        struct timespec a, b;
        clock_gettime(clocks[k], &a);
        for (long i = 0; i < n; i++) {
            if (i & 1 ? clock_gettime(clocks[k], &b) : syscall(SYS_clock_gettime, clocks[k], &b))
                back += 1000000;
            back += b.tv_sec < a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec < a.tv_nsec) || b.tv_nsec < 0 ||
                    b.tv_nsec > 999999999;
            a = b;
        }
        say("clock %zu: backwards %ld", k, back);
    }
    struct timespec r, c;
    TRY(clock_getres(CLOCK_MONOTONIC, &r)), say("resolution %ld", r.tv_nsec);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &c), clock_gettime(CLOCK_MONOTONIC, &r);
    EXPECT((r.tv_sec - c.tv_sec) * 1000000000L + r.tv_nsec - c.tv_nsec >= 0 && r.tv_sec - c.tv_sec <= 1);
    TRY(clock_gettime(99, &r)), TRY(clock_getres(99, &r)), TRY(clock_gettime(-1000000, &r));
    return wrong;
}
