// socketpair(2): both directions, end of file, half close, message boundaries, SIOCINQ.
// krun: static
#include "guest.h"
#include <sys/ioctl.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    int s[2], n;
    char b[20] = "";
    TRY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s));
    write(s[0], "ab", 2), write(s[0], "cd", 2), write(s[1], "back", 4);
    ioctl(s[1], FIONREAD, &n), say("waiting %d", n);
    SHOW(read(s[1], b, 19)), SHOW(read(s[0], b, 19)), TRY(read(s[0], b, 1));
    shutdown(s[0], SHUT_WR), SHOW(read(s[1], b, 1)), SHOW(write(s[1], "x", 1)), SHOW(read(s[0], b, 1));
    TRY(send(s[0], "x", 1, MSG_NOSIGNAL));
    TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
    send(s[0], "one", 3, 0), send(s[0], "two", 3, MSG_EOR), SHOW(recv(s[1], b, 2, 0)),
        SHOW(recv(s[1], b, 19, 0));
    TRY(socketpair(AF_INET, SOCK_STREAM, 0, s)), TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, (void *)8));
    return 0;
}
