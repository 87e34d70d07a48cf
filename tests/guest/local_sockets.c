// TCP sockets read and written after a wait, as servers do it, in one process with one thread: what was read
// stays read and what was sent arrives in order, whatever call comes next: tcp(7), epoll(7), recv(2),
// send(2). krun: static musl timeout=60
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

static int epoll, listener;
static struct sockaddr_in address;

// A connection: the server's end, which epoll watches, and the client's.
static void connection(int pair[2], unsigned events) {
    socklen_t n = sizeof address;
    int one = 1;
    pair[1] = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(pair[1], (void *)&address, n));
    pair[0] = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    MUST(setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    MUST(setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    struct epoll_event e = {.events = events, .data.u64 = 0x1234567800000000UL + (unsigned)pair[0]};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &e));
}
static void over(int pair[2]) { close(pair[0]), close(pair[1]); }

static int ready(int fd) { // with epoll; 1 if it is this one
    struct epoll_event e = {0};
    int n = epoll_wait(epoll, &e, 1, 10000);
    return n == 1 && e.data.u64 == 0x1234567800000000UL + (unsigned)fd && e.events & EPOLLIN;
}
static char got[65536];
static void show_read(const char *what, int fd, size_t room) {
    memset(got, 0, sizeof got);
    long n = recv(fd, got, room, 0);
    n < 0 ? say("%s: %s", what, errno_name(errno))
          : say("%s: %ld '%.*s'", what, n, (int)(n < 60 ? n : 60), got);
}
static void show_peer(const char *what, int fd, size_t bytes) { // blocking; exactly so many
    memset(got, 0, sizeof got);
    long n = recv(fd, got, bytes, MSG_WAITALL);
    say("%s: %ld '%.*s'", what, n, (int)(n < 60 ? n : 60), got);
}

static void reads(void) {
    int p[2];
    connection(p, EPOLLIN);
    MUST(write(p[1], "abcdefghijklmnopqrstuvwxyz", 26));
    EXPECT(ready(p[0]));
    memset(got, 0, sizeof got);
    SHOW(read(p[0], got, 3)), say("%s", got);
    show_read("four more", p[0], 4);
    SHOW(recv(p[0], got, 2, MSG_PEEK)), say("%.2s", got);
    show_read("after a look", p[0], 2);
    int left = 0;
    SHOW(ioctl(p[0], FIONREAD, &left)), say("left %d", left);
    SHOW(read(p[0], got, 0));
    TRY(read(p[0], (void *)8, 5)); // a bad pointer takes nothing
    TRY(read(p[0], (void *)0x6c0000001000UL, 5));
    struct iovec v[2] = {{got, 2}, {got + 2, 3}};
    SHOW(readv(p[0], v, 2)), say("%.5s", got);
    show_read("the rest", p[0], 100);
    show_read("nothing", p[0], 100);
    MUST(write(p[1], "0123456789", 10));
    EXPECT(ready(p[0]));
    show_read("one", p[0], 1);
    getppid();
    show_read("more than there is", p[0], 100);
    MUST(write(p[1], "again", 5));
    EXPECT(ready(p[0]) && ready(p[0])); // level-triggered: it stays ready
    show_read("again", p[0], 100);
    struct pollfd f = {p[0], POLLIN, 0};
    SHOW(poll(&f, 1, 0));
    MUST(write(p[1], "by poll", 7));
    SHOW(poll(&f, 1, 10000)), show_read("poll", p[0], 100);
    MUST(write(p[1], "by select", 9));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p[0], &set);
    struct timeval t = {10, 0};
    SHOW(select(p[0] + 1, &set, NULL, NULL, &t)), show_read("select", p[0], 100);
    MUST(write(p[1], "last", 4)), shutdown(p[1], SHUT_WR);
    EXPECT(ready(p[0]));
    show_read("last", p[0], 4), show_read("end", p[0], 4), show_read("end", p[0], 4);
    over(p);
}

// With an edge-triggered epoll a program reads until a read is short or EAGAIN: no byte may wait without an
// event.
static void edges(void) {
    static char big[50000];
    int p[2];
    connection(p, EPOLLIN | EPOLLET);
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)('a' + i % 23);
    size_t sizes[] = {1, 16383, 16384, 16385, 50000, 7};
    for (size_t k = 0; k < COUNT(sizes); k++) {
        size_t all = 0, wrong_bytes = 0, sent = 0;
        while (sent < sizes[k])
            sent += (size_t)MUST(write(p[1], big + sent, sizes[k] - sent));
        while (all < sizes[k]) {
            EXPECT(ready(p[0]));
            for (;;) {
                long n = read(p[0], got, sizeof got);
                if (n < 0)
                    break;
                for (long i = 0; i < n; i++)
                    wrong_bytes += got[i] != big[all + (size_t)i];
                all += (size_t)n;
                if ((size_t)n < sizeof got)
                    break;
            }
        }
        say("%zu bytes: %zu, %zu wrong", sizes[k], all, wrong_bytes);
    }
    over(p);
}

// After this the server's end has been ready and read: it may be sent on.
static void asked(int p[2]) {
    MUST(write(p[1], "?", 1));
    EXPECT(ready(p[0]));
    EXPECT(read(p[0], got, 100) == 1);
}

static void sends(void) {
    int p[2], q[2];
    connection(p, EPOLLIN);
    connection(q, EPOLLIN);
    asked(p);
    SHOW(write(p[0], "one ", 4)), SHOW(send(p[0], "two ", 4, MSG_NOSIGNAL)), SHOW(write(p[0], "three", 5));
    show_peer("in order", p[1], 13);
    asked(p);
    SHOW(write(p[0], "1", 1));
    struct iovec v[2] = {{"2", 1}, {"3", 1}};
    SHOW(writev(p[0], v, 2));
    SHOW(write(p[0], "4", 1));
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    SHOW(sendmsg(p[0], &m, 0));
    show_peer("mixed calls", p[1], 6);
    asked(p), SHOW(write(p[0], "", 0));
    TRY(write(p[0], (void *)8, 5)), TRY(write(p[0], (void *)0x6c0000001000UL, 5));
    v[1].iov_base = (void *)8;
    TRY(writev(p[0], v, 2)), SHOW(writev(p[0], v, 0)), TRY(writev(p[0], (void *)8, 1)),
        TRY(writev(p[0], v, -1));
    v[1].iov_base = "3";
    SHOW(write(p[0], "x", 1)), show_peer("after bad ones", p[1], 1);
    asked(p);
    int d = MUST(dup(p[0]));
    SHOW(write(p[0], "a", 1)), SHOW(write(d, "b", 1)), SHOW(write(p[0], "c", 1));
    show_peer("two numbers", p[1], 3);
    close(d);
    asked(q);
    SHOW(write(q[0], "to q", 4)), SHOW(dup2(p[0], q[0]) == q[0]); // q's connection ends behind its data
    show_peer("replaced", q[1], 4), show_read("end", q[1], 1);
    over(p), over(q);
    connection(p, EPOLLIN);
    asked(p), SHOW(write(p[0], "bye", 3)), SHOW(shutdown(p[0], SHUT_WR));
    show_peer("shut", p[1], 3), show_read("end", p[1], 1);
    on(SIGPIPE, SIG_IGN, 0);
    TRY(write(p[0], "x", 1));
    over(p);
    connection(p, EPOLLIN);
    asked(p), SHOW(write(p[0], "closed", 6)), SHOW(close(p[0]));
    show_peer("closed", p[1], 6), show_read("end", p[1], 1);
    TRY(write(p[0], "x", 1));
    close(p[1]);
    connection(p, EPOLLIN);
    asked(p), SHOW(write(p[0], "range", 5)), SHOW(syscall(SYS_close_range, p[0], p[0], 0));
    show_peer("range", p[1], 5), show_read("end", p[1], 1);
    close(p[1]);
}

// Random calls on several connections at once; both directions carry the bytes of a known sequence.
static unsigned long x = 88172645463325252UL;
static unsigned below(unsigned n) {
    return x ^= x << 13, x ^= x >> 7, x ^= x << 17, (unsigned)((x >> 20) % n);
}
enum { SEVERAL = 5 };
static unsigned char byte(size_t at, int which) {
    return (unsigned char)((at * 7 + at / 251 + (size_t)which * 31) & 255);
}

static size_t take(int fd, size_t at, int which, size_t room) {
    long n = read(fd, got, room);
    for (long i = 0; i < n; i++)
        if ((unsigned char)got[i] != byte(at + (size_t)i, which)) {
            wrong = 1, say("connection %d: byte %zu is WRONG", which, at + (size_t)i);
            exit(1);
        }
    return n > 0 ? (size_t)n : 0;
}
static size_t give(int fd, size_t at, int which, size_t size) {
    static unsigned char out[4096];
    for (size_t i = 0; i < size; i++)
        out[i] = byte(at + i, which);
    size_t first = below((unsigned)size + 1);
    struct iovec v[3] = {{out, first}, {out + first, 0}, {out + first, size - first}};
    switch (below(3)) {
    case 0: {
        long n = write(fd, out, size);
        return n > 0 ? (size_t)n : 0;
    }
    case 1: {
        long n = send(fd, out, size, MSG_DONTWAIT);
        return n > 0 ? (size_t)n : 0;
    }
    }
    long n = writev(fd, v, 3);
    return n > 0 ? (size_t)n : 0;
}
static void nothing(int sig) { (void)sig; }
static void mixture(void) { // signals come at any instruction of it
    int p[SEVERAL][2];
    size_t to[SEVERAL][2] = {{0}}, from[SEVERAL][2] = {{0}}; // bytes given, taken; [0]: by the client
    for (int i = 0; i < SEVERAL; i++) {
        connection(p[i], i & 1 ? EPOLLIN | EPOLLET : EPOLLIN);
        MUST(fcntl(p[i][1], F_SETFL, O_NONBLOCK));
    }
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    on(SIGALRM, nothing, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &often, NULL));
    for (long round = 0; round < scaled(2000); round++) {
        int i = (int)below(SEVERAL);
        struct epoll_event e[SEVERAL];
        if (to[i][0] - from[i][0] < 20000)
            to[i][0] += give(p[i][1], to[i][0], i, 1 + below(below(20) ? 60 : 4000));
        if (below(4))
            MUST(epoll_wait(epoll, e, SEVERAL, 0));
        for (unsigned k = below(8); k; k--) {
            int j = (int)below(SEVERAL);
            switch (below(6)) {
            case 0:
            case 1:
            case 2:
                from[j][0] += take(p[j][0], from[j][0], j, 1 + below(below(8) ? 100 : 20000));
                break;
            case 3:
            case 4:
                if (to[j][1] - from[j][1] < 20000)
                    to[j][1] += give(p[j][0], to[j][1], j + 100, 1 + below(below(20) ? 60 : 4000));
                break;
            default:
                getppid();
            }
        }
        i = (int)below(SEVERAL);
        from[i][1] += take(p[i][1], from[i][1], i + 100, 1 + below(5000));
    }
    MUST(setitimer(ITIMER_REAL, &never, NULL));
    for (int i = 0; i < SEVERAL; i++) {
        struct pollfd f[2] = {{p[i][0], POLLIN, 0}, {p[i][1], POLLIN, 0}};
        while (from[i][0] < to[i][0] && poll(f, 1, 10000) == 1)
            from[i][0] += take(p[i][0], from[i][0], i, 20000);
        while (from[i][1] < to[i][1] && poll(f + 1, 1, 10000) == 1)
            from[i][1] += take(p[i][1], from[i][1], i + 100, 20000);
        say("connection %d: %d %d", i, from[i][0] == to[i][0], from[i][1] == to[i][1]);
        over(p[i]);
    }
}

static void timers(void) { // their numbers are the kernel's, and no other exists
    int id = -1;
    struct itimerspec t;
    for (int i = 0; i < 3; i++)
        SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, &id)), say("timer %d", id);
    TRY(syscall(SYS_timer_gettime, 0x7fffffff, &t)), TRY(syscall(SYS_timer_delete, 0x7fffffff));
    TRY(syscall(SYS_timer_getoverrun, 0x7fffffff)), TRY(syscall(SYS_timer_settime, 0x7fffffff, 0, &t, NULL));
}

int main(int argc, char **argv) {
    socklen_t n = sizeof address;
    (void)argc, (void)argv;
    listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), epoll = MUST(epoll_create1(0));
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (void *)&address, n)), MUST(listen(listener, 16)),
        MUST(getsockname(listener, (void *)&address, &n));
    reads();
    edges();
    sends();
    mixture();
    timers();
    return wrong;
}
