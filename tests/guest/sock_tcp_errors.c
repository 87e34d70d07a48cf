// Refused, not connected, already connected, address in use, non-blocking connect: connect(2), bind(2).
#include "guest.h"
#include <netinet/in.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    char c;
    int l = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0),
        t = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    bind(l, (void *)&a, sizeof(a)), getsockname(l, (void *)&a, &n);
    TRY(connect(s, (void *)&a, sizeof(a))); // bound, not listening
    TRY(bind(s, (void *)&a, sizeof(a)));
    TRY(recv(s, &c, 1, 0)), TRY(send(s, &c, 1, MSG_NOSIGNAL)), TRY(shutdown(s, SHUT_RD)),
        TRY(accept(s, NULL, NULL));
    MUST(listen(l, 1));
    TRY(connect(t, (void *)&a, sizeof(a)) == 0 || errno == EINPROGRESS ? 0 : -1);
    struct pollfd p = {t, POLLOUT, 0};
    SHOW(poll(&p, 1, 1000));
    int e = -1;
    n = sizeof(e), TRY(getsockopt(t, SOL_SOCKET, SO_ERROR, &e, &n)), say("error %d", e);
    TRY(connect(t, (void *)&a, sizeof(a)) == 0 || errno == EISCONN ? 0 : -1);
    TRY(recv(t, &c, 1, 0));
    a.sin_family = 77, TRY(connect(s, (void *)&a, sizeof(a))), TRY(connect(s, (void *)&a, 3)),
    TRY(connect(s, (void *)8, 16));
    TRY(socket(AF_INET, 99, 0)), TRY(socket(77, SOCK_STREAM, 0)), TRY(listen(0, 1)),
        TRY(bind(99, (void *)&a, 16));
    return 0;
}
