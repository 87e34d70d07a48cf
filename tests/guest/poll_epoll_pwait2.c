// epoll_pwait and epoll_pwait2: masks and nanosecond time-outs: epoll_wait(2).
#include "guest.h"
#include <sys/epoll.h>
static volatile int hits;
static void h(int s) { hits++; }
int main(int argc, char **argv) {
    int e = MUST(epoll_create1(0));
    struct epoll_event v;
    sigset_t block, none;
    sigemptyset(&none), sigemptyset(&block), sigaddset(&block, SIGUSR1), sigprocmask(SIG_BLOCK, &block, NULL);
    on(SIGUSR1, h, SA_RESTART), raise(SIGUSR1);
    TRY(epoll_pwait(e, &v, 1, 1000, &none)), say("hits %d", hits);
    struct timespec t = {0, 15000000}, bad = {0, -5};
    long long before = now_ns(CLOCK_MONOTONIC);
    SHOW(syscall(441, e, &v, 1, &t, NULL, 8));
    EXPECT(now_ns(CLOCK_MONOTONIC) - before >= 15000000);
    raise(SIGUSR1), TRY(syscall(441, e, &v, 1, NULL, &none, 8)), say("hits %d", hits);
    TRY(syscall(441, e, &v, 1, &bad, NULL, 8)), TRY(syscall(441, e, &v, 1, &t, &none, 3));
    return wrong;
}
