// Descriptors (SCM_RIGHTS) through unix sockets, close-on-exec, truncated: unix(7), cmsg(3).
// krun: static
#include "guest.h"
#include <sys/socket.h>
static long transfer(int s, int *fds, int n, size_t room, int flags, int sending, int *ctrunc) {
    char control[256] = "", c = 'x';
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sending ? CMSG_SPACE(n * 4) : room};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (sending) {
        *h = (struct cmsghdr){CMSG_LEN(n * 4), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(h), fds, n * 4);
        return sendmsg(s, &m, flags);
    }
    long r = recvmsg(s, &m, flags);
    *ctrunc = !!(m.msg_flags & MSG_CTRUNC);
    if (r < 0 || !(h = CMSG_FIRSTHDR(&m)))
        return -2;
    n = (h->cmsg_len - CMSG_LEN(0)) / 4;
    memcpy(fds, CMSG_DATA(h), n * 4);
    return n;
}
int main(int argc, char **argv) {
    int s[2], f = file_with("f", "passed"), fds[10] = {f, 0, f}, t;
    char text[20] = "";
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    SHOW(transfer(s[0], fds, 3, 0, 0, 1, NULL));
    reap("receiver", CHILD({
             close(f);
             SHOW(transfer(s[1], fds, 0, 256, MSG_CMSG_CLOEXEC, 0, &t));
             pread(fds[2], text, 19, 0), say("%s, cloexec %d, truncated %d", text, fcntl(fds[0], F_GETFD), t);
         }));
    fds[0] = f, fds[1] = f, fds[2] = f;
    transfer(s[0], fds, 3, 0, 0, 1, NULL), SHOW(transfer(s[1], fds, 0, CMSG_SPACE(4), 0, 0, &t)),
        say("truncated %d", t);
    fds[0] = 99, TRY(transfer(s[0], fds, 1, 0, 0, 1, NULL));
    fds[0] = s[0], TRY(transfer(s[0], fds, 1, 0, 0, 1, NULL)), SHOW(transfer(s[1], fds, 0, 256, 0, 0, &t));
    write(fds[0], "via the socket itself", 10), SHOW(read(s[1], text, 19));
    return 0;
}
