// MSG_WAITALL, MSG_PEEK, MSG_OOB, MSG_DONTWAIT, MSG_TRUNC on streams: recv(2).
#include "guest.h"
#include <sys/socket.h>
int main(int argc, char **argv) {
    int s[2];
    char b[20] = "";
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    pid_t c = CHILD(send(s[1], "12345", 5, 0); pause_ms(20); send(s[1], "67890", 5, MSG_MORE));
    SHOW(recv(s[0], b, 10, MSG_WAITALL)), say("%s", b);
    reap("sender", c);
    send(s[1], "peek", 4, 0), SHOW(recv(s[0], b, 2, MSG_PEEK)), SHOW(recv(s[0], b, 19, 0));
    TRY(recv(s[0], b, 1, MSG_DONTWAIT)), TRY(recv(s[0], b, 1, MSG_ERRQUEUE | MSG_DONTWAIT) == -1 ? -1 : 0);
    send(s[1], "x", 1, 0), close(s[1]), SHOW(recv(s[0], b, 10, MSG_WAITALL)), SHOW(recv(s[0], b, 10, 0));
    TRY(recv(0, b, 1, 0)), TRY(send(99, b, 1, 0)), TRY(getpeername(s[0], (void *)8, (void *)8));
    return 0;
}
