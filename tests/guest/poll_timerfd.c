// timerfd: one-shot, interval, absolute, expirations counted, disarm, errors: timerfd_create(2).
#include "guest.h"
#include <sys/timerfd.h>
int main(int argc, char **argv) {
    int fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    uint64_t n = 0;
    struct itimerspec t = {{0, 0}, {0, 10000000}}, old;
    TRY(read(fd, &n, 8));
    TRY(timerfd_settime(fd, 0, &t, NULL));
    struct pollfd p = {fd, POLLIN, 0};
    SHOW(poll(&p, 1, 1000)), SHOW(read(fd, &n, 8)), say("%lu", (long)n);
    t.it_interval.tv_nsec = 2000000;
    timerfd_settime(fd, 0, &t, NULL), pause_ms(50), read(fd, &n, 8);
    EXPECT(n >= 10 && n < 1000);
    TRY(timerfd_gettime(fd, &old)), say("interval %ld", old.it_interval.tv_nsec);
    clock_gettime(CLOCK_MONOTONIC, &t.it_value), t.it_value.tv_sec -= 1, t.it_interval.tv_nsec = 0;
    TRY(timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL)), SHOW(poll(&p, 1, 1000)), SHOW(read(fd, &n, 8)),
        say("past: %lu", (long)n);
    t.it_value = (struct timespec){0, 0}, TRY(timerfd_settime(fd, 0, &t, NULL)), TRY(read(fd, &n, 8));
    t.it_value.tv_nsec = 1000000000, TRY(timerfd_settime(fd, 0, &t, NULL));
    TRY(timerfd_create(77, 0)), TRY(timerfd_settime(0, 0, &old, NULL)),
        TRY(timerfd_settime(fd, 0, (void *)8, NULL));
    return wrong;
}
