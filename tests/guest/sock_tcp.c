// TCP over loopback: listen, connect, accept4, names, big transfer, shutdown, end of file: tcp(7).
// krun: static musl
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, b;
    socklen_t n = sizeof(a);
    int l = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), one = 1;
    MUST(bind(l, (void *)&a, sizeof(a))), MUST(listen(l, 5)), MUST(getsockname(l, (void *)&a, &n));
    pid_t c = CHILD({
        int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(s, (void *)&a, sizeof(a)));
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        char *big = malloc(1 << 20);
        memset(big, 'b', 1 << 20);
        for (size_t at = 0; at < 1 << 20;)
            at += MUST(send(s, big + at, (1 << 20) - at, 0));
        shutdown(s, SHUT_WR);
        char answer[20] = "";
        SHOW(recv(s, answer, 19, MSG_WAITALL)), say("%s", answer);
    });
    n = sizeof(b);
    int s = MUST(accept4(l, (void *)&b, &n, SOCK_CLOEXEC | SOCK_NONBLOCK));
    say("family %d, loopback %d, length %u, flags %d %d", b.sin_family == AF_INET,
        b.sin_addr.s_addr == htonl(INADDR_LOOPBACK), n, fcntl(s, F_GETFD),
        !!(fcntl(s, F_GETFL) & O_NONBLOCK));
    fcntl(s, F_SETFL, 0);
    char block[10000];
    long total = 0, bad = 0;
    for (ssize_t k; (k = recv(s, block, sizeof(block), 0)) > 0; total += k)
        bad += block[0] != 'b' || block[k - 1] != 'b';
    say("total %ld, wrong %ld", total, bad);
    send(s, "thank you", 9, 0), close(s);
    return reap("client", c);
}
