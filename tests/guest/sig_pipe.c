// Writing into a broken pipe: SIGPIPE, or EPIPE when ignored; MSG_NOSIGNAL on sockets: pipe(7), send(2).
#include "guest.h"
#include <sys/socket.h>
int main(int argc, char **argv) {
    int p[2], s[2];
    MUST(pipe(p)), MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    close(p[0]), close(s[0]);
    reap("pipe", CHILD(write(p[1], "x", 1)));
    reap("socket", CHILD(write(s[1], "x", 1)));
    TRY(send(s[1], "x", 1, MSG_NOSIGNAL));
    signal(SIGPIPE, SIG_IGN);
    TRY(write(p[1], "x", 1));
    TRY(send(s[1], "x", 1, 0));
    return 0;
}
