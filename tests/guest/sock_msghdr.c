// sendmsg and recvmsg: scattered buffers, names, bad headers, lengths written back: sendmsg(2).
#include "guest.h"
#include <netinet/in.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, f = {0};
    socklen_t n = sizeof(a);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    bind(s, (void *)&a, sizeof(a)), getsockname(s, (void *)&a, &n);
    char one[4] = "", two[10] = "";
    struct iovec out[2] = {{"abc", 3}, {"defghij", 7}}, in[2] = {{one, 3}, {two, 4}};
    struct msghdr m = {.msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = out, .msg_iovlen = 2};
    SHOW(sendmsg(s, &m, 0));
    m = (struct msghdr){.msg_name = &f, .msg_namelen = 100, .msg_iov = in, .msg_iovlen = 2};
    SHOW(recvmsg(s, &m, 0)), say("%s %s, name %u, flags %x, same %d", one, two, m.msg_namelen, m.msg_flags,
                                 f.sin_port == a.sin_port);
    m.msg_iovlen = 2000, TRY(recvmsg(s, &m, MSG_DONTWAIT)), m.msg_iovlen = 1, m.msg_iov = (void *)8,
    TRY(recvmsg(s, &m, MSG_DONTWAIT));
    m.msg_iov = in, m.msg_namelen = -1, TRY(recvmsg(s, &m, MSG_DONTWAIT));
    m = (struct msghdr){.msg_name = &a,
                        .msg_namelen = sizeof(a),
                        .msg_iov = out,
                        .msg_iovlen = 1,
                        .msg_control = (void *)8,
                        .msg_controllen = 32};
    TRY(sendmsg(s, &m, 0)), TRY(sendmsg(s, (void *)8, 0));
    return 0;
}
