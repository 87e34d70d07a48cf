// Unix sockets: stream, datagram, seqpacket by path, abstract names, unnamed, leftovers: unix(7).
// krun: static
#include "guest.h"
#include <sys/socket.h>
#include <sys/un.h>
static void both(int type, const char *name, int length) {
    struct sockaddr_un a = {.sun_family = AF_UNIX}, p;
    memcpy(a.sun_path, name, length);
    socklen_t n = offsetof(struct sockaddr_un, sun_path) + length;
    char text[20] = "";
    int l = MUST(socket(AF_UNIX, type, 0)), c = MUST(socket(AF_UNIX, type, 0)), s = l;
    MUST(bind(l, (void *)&a, n));
    if (type != SOCK_DGRAM)
        MUST(listen(l, 1));
    MUST(connect(c, (void *)&a, n));
    if (type != SOCK_DGRAM)
        s = MUST(accept(l, NULL, NULL));
    send(c, "first", 5, 0), send(c, "second", 6, 0);
    SHOW(recv(s, text, 19, 0)), say("%s", text);
    n = sizeof(p), getpeername(c, (void *)&p, &n), say("peer name length %u, abstract %d", n, !p.sun_path[0]);
    n = sizeof(p), getsockname(c, (void *)&p, &n), say("own name length %u", n);
    TRY(bind(MUST(socket(AF_UNIX, type, 0)), (void *)&a, offsetof(struct sockaddr_un, sun_path) + length));
    close(l), close(c), close(s);
}
int main(int argc, char **argv) {
    both(SOCK_STREAM, "stream", 7), both(SOCK_DGRAM, "dgram", 6), both(SOCK_SEQPACKET, "packet", 7);
    char name[20];
    both(SOCK_STREAM, name, 1 + sprintf(name + 1, "%d", getpid()) * 0 + (name[0] = 0, 8));
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "missing"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    TRY(connect(s, (void *)&a, sizeof(a))), strcpy(a.sun_path, "stream"),
        TRY(connect(s, (void *)&a, sizeof(a)));
    struct stat st;
    stat("stream", &st), say("socket file %d", S_ISSOCK(st.st_mode));
    return 0;
}
