// Whether two descriptors are one open file: kcmp(2).
#include "guest.h"
#include <sys/epoll.h>
static long kcmp(pid_t a, pid_t b, int type, unsigned long x, unsigned long y) {
    long r = syscall(SYS_kcmp, a, b, type, x, y);
    return r > 0 ? 1 : r; /* 1 or 2: an order without meaning */
}
int main(int argc, char **argv) {
    pid_t me = getpid();
    int a = (int)MUST(open("/dev/null", O_RDONLY)), b = dup(a), c = (int)MUST(open("/dev/null", O_RDONLY));
    if (SHOW(kcmp(me, me, 0, a, b)) < 0 && errno == ENOSYS)
        return 0; /* a kernel without CONFIG_KCMP */
    SHOW(kcmp(me, me, 0, a, c)), SHOW(kcmp(me, me, 0, a, 900)), SHOW(kcmp(me, gettid(), 0, a, a)),
        SHOW(kcmp(me, 999999999, 0, a, a));
    for (int type = 1; type < 7; type++)
        say("type %d: %ld", type, kcmp(me, me, type, 0, 0));
    SHOW(kcmp(me, me, 99, 0, 0));
    int e = (int)MUST(epoll_create1(0)), ends[2];
    MUST(pipe(ends));
    struct epoll_event ev = {.events = EPOLLIN};
    MUST(epoll_ctl(e, EPOLL_CTL_ADD, ends[0], &ev));
    struct {
        uint32_t efd, tfd, toff;
    } slot = {e, ends[0], 0};
    SHOW(kcmp(me, me, 7, ends[0], (unsigned long)&slot)), SHOW(kcmp(me, me, 7, a, (unsigned long)&slot)),
        SHOW(kcmp(me, me, 7, a, 8));
    slot.tfd = a;
    SHOW(kcmp(me, me, 7, a, (unsigned long)&slot));
    return wrong;
}
