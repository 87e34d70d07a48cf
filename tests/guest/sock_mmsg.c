// sendmmsg and recvmmsg: several messages in one call, partial results, time-outs: sendmmsg(2).
#include "guest.h"
#include <sys/socket.h>
int main(int argc, char **argv) {
    int s[2];
    char text[4][10] = {"a", "bb", "ccc", ""}, in[4][10] = {"", "", "", ""};
    struct iovec v[4], w[4];
    struct mmsghdr m[4] = {0}, r[4] = {0};
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
    for (int i = 0; i < 4; i++) {
        v[i] = (struct iovec){text[i], strlen(text[i])}, w[i] = (struct iovec){in[i], 9};
        m[i].msg_hdr.msg_iov = &v[i], m[i].msg_hdr.msg_iovlen = 1, r[i].msg_hdr.msg_iov = &w[i],
        r[i].msg_hdr.msg_iovlen = 1;
    }
    SHOW(sendmmsg(s[0], m, 3, 0)), say("%u %u %u", m[0].msg_len, m[1].msg_len, m[2].msg_len);
    SHOW(recvmmsg(s[1], r, 4, MSG_DONTWAIT, NULL)), say("%s %s %s, %u", in[0], in[1], in[2], r[2].msg_len);
    TRY(recvmmsg(s[1], r, 4, MSG_DONTWAIT, NULL));
    v[2].iov_base = (void *)8;
    SHOW(sendmmsg(s[0], m, 3, 0)); // the third fails: two are sent
    SHOW(recvmmsg(s[1], r, 2, MSG_WAITFORONE, NULL));
    TRY(sendmmsg(s[0], m + 2, 1, 0)), TRY(sendmmsg(99, m, 1, 0)),
        TRY(recvmmsg(s[1], (void *)8, 1, MSG_DONTWAIT, NULL));
    struct timespec bad = {0, -1};
    TRY(recvmmsg(s[1], r, 1, 0, &bad));
    return 0;
}
