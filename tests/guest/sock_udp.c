// UDP: sendto, recvfrom, connected, truncation, MSG_PEEK, ICMP errors: udp(7).
// krun: static
#include "guest.h"
#include <netinet/in.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, b = a, f;
    socklen_t n = sizeof(a);
    char text[20] = "";
    int r = socket(AF_INET, SOCK_DGRAM, 0), s = socket(AF_INET, SOCK_DGRAM, 0);
    bind(r, (void *)&a, sizeof(a)), getsockname(r, (void *)&a, &n), bind(s, (void *)&b, sizeof(b)),
        getsockname(s, (void *)&b, &n);
    SHOW(sendto(s, "datagram", 8, 0, (void *)&a, sizeof(a)));
    SHOW(recv(r, text, 3, MSG_PEEK)), SHOW(recv(r, text, 3, MSG_PEEK | MSG_TRUNC));
    n = sizeof(f), SHOW(recvfrom(r, text, 19, 0, (void *)&f, &n)),
    say("%s, from the sender %d", text, f.sin_port == b.sin_port && n == 16);
    TRY(recv(r, text, 1, MSG_DONTWAIT));
    SHOW(sendto(s, "", 0, 0, (void *)&a, sizeof(a))), SHOW(recv(r, text, 19, 0));
    TRY(send(s, "x", 1, 0));
    TRY(connect(s, (void *)&a, sizeof(a))), SHOW(send(s, "xyz", 3, 0)), SHOW(recv(r, text, 2, 0)),
        TRY(recv(r, text, 2, MSG_DONTWAIT));
    close(r), send(s, "x", 1, 0), pause_ms(5), TRY(send(s, "x", 1, 0));
    char *big = calloc(1, 70000);
    TRY(send(s, big, 70000, 0));
    f.sin_family = AF_UNSPEC, TRY(connect(s, (void *)&f, sizeof(f))), TRY(send(s, "x", 1, 0));
    return 0;
}
