// poll(2) and ppoll: readiness, hang-up, invalid descriptors, time-outs, negative numbers.
// krun: static musl
#include "guest.h"
int main(int argc, char **argv) {
    int a[2], b[2];
    MUST(pipe(a)), MUST(pipe(b));
    close(b[1]);
    struct pollfd f[5] = {
        {a[0], POLLIN, 0}, {a[1], POLLOUT, 0}, {b[0], POLLIN, 0}, {99, POLLIN, 0}, {-1, POLLIN, 0}};
    SHOW(poll(f, 5, 1000));
    say("%x %x %x %x %x", f[0].revents, f[1].revents, f[2].revents, f[3].revents, f[4].revents);
    long long t = now_ns(CLOCK_MONOTONIC);
    SHOW(poll(f, 1, 30));
    EXPECT(now_ns(CLOCK_MONOTONIC) - t >= 29000000);
    pid_t c = CHILD(pause_ms(20); write(a[1], "x", 1));
    SHOW(poll(f, 1, -1)), say("%x", f[0].revents);
    struct timespec zero = {0, 0}, bad = {0, -1};
    SHOW(ppoll(f, 1, &zero, NULL)), SHOW(ppoll(f, 1, &bad, NULL));
    SHOW(poll(NULL, 0, 5));
    TRY(poll((void *)8, 1, 0));
    TRY(poll(f, 1 << 28, 0));
    return reap("child", c) | wrong;
}
