// SO_PEERCRED and SCM_CREDENTIALS carry pid, uid and gid; forging needs rights: unix(7).
#include "guest.h"
#include <sys/socket.h>
int main(int argc, char **argv) {
    int s[2], one = 1;
    struct ucred u;
    socklen_t n = sizeof(u);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
    MUST(getsockopt(s[0], SOL_SOCKET, SO_PEERCRED, &u, &n));
    EXPECT(u.pid == getpid() && u.uid == geteuid() && u.gid == getegid());
    MUST(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
    pid_t c = CHILD(send(s[0], "x", 1, 0));
    char b, control[CMSG_SPACE(sizeof(u))];
    struct iovec v = {&b, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    SHOW(recvmsg(s[1], &m, 0));
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    memcpy(&u, CMSG_DATA(h), sizeof(u));
    EXPECT(h->cmsg_type == SCM_CREDENTIALS && u.pid == c && u.uid == getuid());
    reap("child", c);
    reap("forger", CHILD({
             if (!getuid())
                 setresuid(1000, 1000, 1000);
             u = (struct ucred){1, 0, 0};
             *h = (struct cmsghdr){CMSG_LEN(sizeof(u)), SOL_SOCKET, SCM_CREDENTIALS},
             memcpy(CMSG_DATA(h), &u, sizeof(u));
             m.msg_controllen = sizeof(control);
             TRY(sendmsg(s[0], &m, 0));
         }));
    return wrong;
}
