// Paths in addresses of AF_UNIX: links, what is missing, what is no socket, rights, relative ones, what
// getsockname and getpeername tell; messages by path.
#include "guest.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
static socklen_t at(struct sockaddr_un *un, const char *path) {
    memset(un, 0, sizeof *un);
    un->sun_family = AF_UNIX;
    strncpy(un->sun_path, path, sizeof un->sun_path);
    return sizeof *un;
}
static void to(const char *path, int type) {
    struct sockaddr_un un, peer;
    socklen_t n = at(&un, path), m = sizeof peer;
    int s = MUST(socket(AF_UNIX, type, 0));
    int r = connect(s, (struct sockaddr *)&un, n);
    say("connect %.40s: %s", path, r < 0 ? errno_name(errno) : "ok");
    memset(&peer, 0, sizeof peer);
    if (r == 0 && getpeername(s, (struct sockaddr *)&peer, &m) == 0)
        say("peer %s", peer.sun_path);
    close(s);
    if (type != SOCK_DGRAM)
        return;
    s = MUST(socket(AF_UNIX, type, 0));
    r = (int)sendto(s, "x", 1, 0, (struct sockaddr *)&un, n);
    say("sendto %.40s: %s", path, r < 0 ? errno_name(errno) : "ok");
    struct iovec v = {"y", 1};
    struct msghdr h = {.msg_name = &un, .msg_namelen = n, .msg_iov = &v, .msg_iovlen = 1};
    r = (int)sendmsg(s, &h, 0);
    say("sendmsg %.40s: %s", path, r < 0 ? errno_name(errno) : "ok");
    struct mmsghdr many[2] = {{.msg_hdr = h}, {.msg_hdr = h}};
    r = sendmmsg(s, many, 2, 0);
    say("sendmmsg %.40s: %s %d", path, r < 0 ? errno_name(errno) : "ok", r);
    close(s);
}
static int make(const char *path, int type) {
    struct sockaddr_un un;
    socklen_t n = at(&un, path);
    int s = MUST(socket(AF_UNIX, type, 0));
    int r = bind(s, (struct sockaddr *)&un, n);
    say("bind %.40s: %s", path, r < 0 ? errno_name(errno) : "ok");
    n = sizeof un;
    memset(&un, 0, sizeof un);
    if (r == 0 && getsockname(s, (struct sockaddr *)&un, &n) == 0)
        say("name %s", un.sun_path);
    if (type == SOCK_STREAM && r == 0)
        MUST(listen(s, 100));
    return s;
}
int main(int argc, char **argv) {
    char cwd[64], fd[64];
    MUST(mkdir("d", 0755));
    int stream = make("d/stream", SOCK_STREAM), dgram = make("d/dgram", SOCK_DGRAM);
    make("d/stream", SOCK_STREAM), make("none/x", SOCK_STREAM), make("d", SOCK_STREAM);
    MUST(symlink("stream", "d/link")), MUST(symlink("d", "dlink")), MUST(symlink("loop", "loop"));
    close(file_with("d/file", "x"));
    snprintf(fd, sizeof fd, "/proc/self/fd/%d", MUST(open("d", O_PATH | O_DIRECTORY)));
    snprintf(cwd, sizeof cwd, "%s/stream", fd);
    to("d/stream", SOCK_STREAM), to("dlink/link", SOCK_STREAM), to("./d/../d/stream", SOCK_STREAM);
    int s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    struct sockaddr_un un;
    at(&un, cwd);
    EXPECT(connect(s, (struct sockaddr *)&un, sizeof un) == 0);
    to("/proc/self/cwd/d/stream", SOCK_STREAM);
    to("d/none", SOCK_STREAM), to("d/file", SOCK_STREAM), to("d/file/x", SOCK_STREAM), to("d", SOCK_STREAM);
    to("loop", SOCK_STREAM), to("d/dgram", SOCK_STREAM), to("d/stream", SOCK_DGRAM),
        to("d/dgram", SOCK_DGRAM);
    to("d/none", SOCK_DGRAM), to("d/stream", SOCK_SEQPACKET);
    MUST(chmod("d/stream", 0));
    if (geteuid() != 0)
        to("d/stream", SOCK_STREAM);
    // sockets of another kind, and no sockets, with such an address
    int udp = MUST(socket(AF_INET, SOCK_DGRAM, 0)), tcp = MUST(socket(AF_INET, SOCK_STREAM, 0));
    at(&un, "d/none");
    EXPECT(connect(udp, (struct sockaddr *)&un, sizeof un) < 0);
    say("udp: %s", errno_name(errno));
    EXPECT(connect(tcp, (struct sockaddr *)&un, sizeof un) < 0);
    say("tcp: %s", errno_name(errno));
    EXPECT(bind(udp, (struct sockaddr *)&un, sizeof un) < 0);
    say("bind udp: %s", errno_name(errno));
    EXPECT(connect(0, (struct sockaddr *)&un, sizeof un) < 0 &&
           connect(99, (struct sockaddr *)&un, sizeof un) < 0);
    say("not open: %s", errno_name(errno));
    EXPECT(connect(s, (struct sockaddr *)&un, 200) < 0 && errno == EINVAL);
    EXPECT(connect(s, (struct sockaddr *)&un, -1) < 0 && errno == EINVAL);
    EXPECT(connect(s, (struct sockaddr *)8, sizeof un) < 0 && errno == EFAULT);
    close(stream), close(dgram);
    return wrong;
}
