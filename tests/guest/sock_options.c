// Socket options: types, buffers, reuse, linger, time-outs take effect, unknown ones: socket(7).
#include "guest.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0)), v = -1, one = 1, d[2];
    socklen_t n = sizeof(v);
    getsockopt(s, SOL_SOCKET, SO_TYPE, &v, &n), say("type %d, length %u", v, n);
    getsockopt(s, SOL_SOCKET, SO_DOMAIN, &v, &n), say("domain %d", v);
    TRY(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one))),
        getsockopt(s, SOL_SOCKET, SO_REUSEADDR, &v, &n), say("reuse %d", v);
    v = 20000, TRY(setsockopt(s, SOL_SOCKET, SO_RCVBUF, &v, sizeof(v))),
    getsockopt(s, SOL_SOCKET, SO_RCVBUF, &v, &n), say("buffer %d", v);
    struct linger l = {1, 5}, got = {0};
    TRY(setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof(l))), n = sizeof(got),
                                                              getsockopt(s, SOL_SOCKET, SO_LINGER, &got, &n),
                                                              say("linger %d %d", got.l_onoff, got.l_linger);
    char c[1];
    n = 1, TRY(getsockopt(s, IPPROTO_TCP, TCP_NODELAY, c, &n)), say("length %u", n);
    n = 4, TRY(getsockopt(s, SOL_SOCKET, 9999, &v, &n)),
    TRY(getsockopt(s, SOL_SOCKET, SO_TYPE, (void *)8, &n)),
    TRY(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, 1));
    n = -1, TRY(getsockopt(s, SOL_SOCKET, SO_TYPE, &v, &n)),
    TRY(setsockopt(0, SOL_SOCKET, SO_REUSEADDR, &one, 4)), TRY(setsockopt(s, 99, 1, &one, 4));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, d));
    struct timeval t = {0, 30000};
    TRY(setsockopt(d[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
    long long before = now_ns(CLOCK_MONOTONIC);
    TRY(recv(d[0], c, 1, 0));
    EXPECT(now_ns(CLOCK_MONOTONIC) - before >= 25000000);
    return wrong;
}
