// krun: timeout=60
// While one thread is in a call that closes a descriptor and waits (SO_LINGER), the calls of the other
// threads go on.
#include "guest.h"
#include <netinet/in.h>
#include <sys/socket.h>

#define NEED(condition) ((condition) || EXPECT(condition))

static int waits, null, pair[2];
static volatile int over;

// A connection whose peer reads nothing. Its close waits until the peer takes the rest, or resets.
static int connection(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    static char bytes[1 << 16];
    int server = socket(AF_INET, SOCK_STREAM, 0), much = 1 << 22;
    NEED(bind(server, (void *)&a, sizeof a) == 0 && listen(server, 1) == 0);
    NEED(getsockname(server, (void *)&a, &len) == 0);
    waits = socket(AF_INET, SOCK_STREAM, 0);
    NEED(connect(waits, (void *)&a, sizeof a) == 0);
    struct linger l = {1, 20};
    NEED(setsockopt(waits, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
    NEED(setsockopt(waits, SOL_SOCKET, SO_SNDBUF, &much, sizeof much) == 0);
    for (int full = 0; full < 3; nanosleep(&(struct timespec){0, 20000000}, NULL))
        full = send(waits, bytes, sizeof bytes, MSG_DONTWAIT) > 0 ? 0 : full + 1;
    return server;
}

static void *by_dup2(void *arg) {
    EXPECT(dup2(null, waits) == waits);
    over = 1;
    return arg;
}
static void *by_dup3(void *arg) {
    EXPECT(dup3(null, waits, O_CLOEXEC) == waits && fcntl(waits, F_GETFD) == FD_CLOEXEC);
    over = 1;
    return arg;
}
static void *by_close_range(void *arg) {
    EXPECT(syscall(SYS_close_range, waits, waits, 0) == 0);
    over = 1;
    return arg;
}

// Whether the descriptor of the socket has gone already.
static int is_gone(void) {
    struct stat s;
    return fstat(waits, &s) < 0 || !S_ISSOCK(s.st_mode);
}

// Calls on numbers of other descriptors.
static void others(void) {
    char room[CMSG_SPACE(sizeof null)] = "";
    struct iovec iov = {"x", 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof null);
    memcpy(CMSG_DATA(c), &null, sizeof null);
    int n = dup(null);
    EXPECT(n >= 0 && dup2(null, n) == n && fcntl(n, F_SETFD, FD_CLOEXEC) == 0 && close(n) == 0);
    EXPECT(sendmsg(pair[0], &m, 0) == 1);
    EXPECT(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, null, 0) == MAP_FAILED);
}

// Whether the closing call was still waiting at the end.
static int once(void *(*closer)(void *)) {
    int server = connection();
    pthread_t t;
    over = 0;
    NEED(pthread_create(&t, NULL, closer, NULL) == 0);
    while (!is_gone() && !over)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    others();
    int is = !over;
    close(server); // resets the connection, so the other call returns
    pthread_join(t, NULL);
    close(waits);
    return is;
}

int main(void) {
    null = open("/dev/null", O_RDWR);
    NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    void *(*const closers[])(void *) = {by_dup2, by_dup3, by_close_range};
    for (unsigned i = 0; i < COUNT(closers); i++) {
        int good = 0;
        for (int n = 0; n < 3 && !good && !wrong; n++)
            good += once(closers[i]);
        EXPECT(good);
    }
    return wrong;
}
