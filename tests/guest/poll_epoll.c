// epoll(7): level and edge triggered, one-shot, modification, closed descriptors, nesting, errors.
// krun: static
#include "guest.h"
#include <sys/epoll.h>
int main(int argc, char **argv) {
    int e = MUST(epoll_create1(EPOLL_CLOEXEC)), p[2];
    char c;
    struct epoll_event v = {EPOLLIN, {.u64 = 0x1122334455667788}}, out[4];
    MUST(pipe(p));
    TRY(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &v)), TRY(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &v));
    SHOW(epoll_wait(e, out, 4, 0));
    write(p[1], "abc", 3);
    SHOW(epoll_wait(e, out, 4, 1000)), say("%x %lx", out[0].events, (long)out[0].data.u64);
    SHOW(epoll_wait(e, out, 4, 0)); // level: again
    v.events = EPOLLIN | EPOLLET, TRY(epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v));
    SHOW(epoll_wait(e, out, 4, 0)), SHOW(epoll_wait(e, out, 4, 0)); // edge: once
    write(p[1], "d", 1), SHOW(epoll_wait(e, out, 4, 0));
    v.events = EPOLLIN | EPOLLONESHOT, epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v);
    SHOW(epoll_wait(e, out, 4, 0)), SHOW(epoll_wait(e, out, 4, 0));
    epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v), SHOW(epoll_wait(e, out, 4, 0));
    v.events = EPOLLIN, epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v), close(p[1]);
    SHOW(epoll_wait(e, out, 4, 0)), say("%x", out[0].events);
    while (read(p[0], &c, 1) > 0)
        ;
    SHOW(epoll_wait(e, out, 4, 0)), say("%x", out[0].events);
    int outer = MUST(epoll_create(1));
    v.events = EPOLLIN, TRY(epoll_ctl(outer, EPOLL_CTL_ADD, e, &v)), SHOW(epoll_wait(outer, out, 4, 0));
    TRY(epoll_ctl(e, EPOLL_CTL_ADD, outer, &v));
    close(p[0]), SHOW(epoll_wait(e, out, 4, 0));
    TRY(epoll_ctl(e, EPOLL_CTL_ADD, e, &v)), TRY(epoll_ctl(e, EPOLL_CTL_DEL, 99, NULL)),
        TRY(epoll_ctl(e, 9, 0, &v));
    TRY(epoll_ctl(e, EPOLL_CTL_ADD, file_with("f", "x"), &v));
    TRY(epoll_wait(e, out, 0, 0)), TRY(epoll_wait(e, (void *)8, 4, 0)), TRY(epoll_create(0)),
        TRY(epoll_wait(0, out, 1, 0));
    return 0;
}
