// A server with a connection for each request, in one process with one thread: what each call on the accepted
// connection gives, and what its peer, another process, sees of the answer and of the end: accept(2),
// getsockname(2), fcntl(2), FIONBIO, close(2), SO_LINGER in socket(7). krun: static musl timeout=60
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CHECK(condition)                                                                                     \
    ((condition)                                                                                             \
         ? (void)0                                                                                           \
         : (void)(wrong = 1, say("NOT %s (line %d, errno %s)", #condition, __LINE__, errno_name(errno))))

static int listener, other, heart, sent[2], seen[2];
static struct sockaddr_in6 address;
static socklen_t address_size;
static char got[1000];

// The peer: sends a request, says so, and tells what it got until the connection's end.
struct answer {
    int bytes, error;
    char text[60];
};
static void peer(void) {
    char order;
    while (read(sent[0], &order, 1) == 1) {
        struct answer a = {0, 0, ""};
        int fd = MUST(socket(address.sin6_family, SOCK_STREAM, 0));
        MUST(connect(fd, (void *)&address, address_size));
        MUST(send(fd, "request", 7, 0));
        MUST(write(seen[1], "!", 1));
        long n;
        while ((n = recv(fd, a.text + a.bytes, sizeof a.text - (size_t)a.bytes - 1, 0)) > 0)
            a.bytes += (int)n;
        a.error = n < 0 ? errno : 0;
        close(fd);
        MUST(write(seen[1], &a, sizeof a));
    }
    _exit(0);
}
static int order[2], told[2]; // the server's ends

static int next(void) { // a connection whose request has come
    char byte;
    MUST(write(order[1], "c", 1));
    MUST(read(told[0], &byte, 1));
    struct sockaddr_in6 from;
    socklen_t n = sizeof from;
    int fd = MUST(accept4(listener, (void *)&from, &n, SOCK_CLOEXEC));
    CHECK(n == address_size && from.sin6_family == address.sin6_family);
    return fd;
}
static void has_name(int fd) {
    struct sockaddr_storage s;
    socklen_t n = sizeof s;
    memset(&s, 0x55, sizeof s);
    CHECK(getsockname(fd, (void *)&s, &n) == 0 && n == address_size && !memcmp(&s, &address, n));
    CHECK(((char *)&s)[n] == 0x55);
}
static void answered(int bytes, int error) { // what the peer has got
    struct answer a;
    MUST(read(told[0], &a, sizeof a));
    if (a.bytes != bytes || a.error != error)
        wrong = 1, say("peer: %d '%s' %s", a.bytes, a.text, a.error ? errno_name(a.error) : "end");
}
static void request(int fd) { CHECK(recv(fd, got, sizeof got, 0) == 7 && !memcmp(got, "request", 7)); }
static int nonblocking(int fd, int on) { return ioctl(fd, FIONBIO, &on); }
static void is_closed(int fd) {
    struct sockaddr_storage s;
    socklen_t n = sizeof s;
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    CHECK(getsockname(fd, (void *)&s, &n) == -1 && errno == EBADF);
    CHECK(send(fd, "x", 1, 0) == -1 && errno == EBADF);
    CHECK(recv(fd, got, 1, 0) == -1 && errno == EBADF);
    CHECK(close(fd) == -1 && errno == EBADF);
}

// As gunicorn's worker does it.
static void plain(int round) {
    int fd = next();
    has_name(fd);
    CHECK(nonblocking(fd, 0) == 0);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    CHECK(fcntl(fd, F_GETFL) == O_RDWR);
    request(fd);
    has_name(listener);
    CHECK(send(fd, "head ", 5, 0) == 5);
    CHECK(send(fd, "body", 4, 0) == 4);
    CHECK(close(fd) == 0);
    switch (round % 4) {
    case 0:
        CHECK(fchmod(heart, round & 4 ? 0600 : 0) == 0);
        break;
    case 1:
        is_closed(fd);
        break;
    case 2: { // it has the lowest free number
        int again = MUST(dup(heart));
        CHECK(again == fd);
        CHECK(send(fd, "x", 1, 0) == -1 && errno == ENOTSOCK);
        close(again);
        break;
    }
    }
    answered(9, 0);
}

static void flags(void) {
    int fd = next(), left = 0;
    CHECK(nonblocking(fd, 1) == 0);
    CHECK(fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
    CHECK(nonblocking(fd, 1) == 0);
    request(fd);
    CHECK(recv(fd, got, 1, 0) == -1 && errno == EAGAIN);
    CHECK(fcntl(fd, F_SETFD, 0) == 0 && fcntl(fd, F_GETFD) == 0);
    CHECK(fcntl(fd, F_SETFD, 3) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(fd, F_SETFL, O_RDWR) == 0 && fcntl(fd, F_GETFL) == O_RDWR);
    CHECK(ioctl(fd, FIONREAD, &left) == 0 && left == 0);
    CHECK(ioctl(fd, FIONBIO, (void *)8) == -1 && errno == EFAULT);
    CHECK(ioctl(fd, FIOCLEX, 0) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    close(fd);
    answered(0, 0);
}

static void names(void) {
    int fd = next();
    union {
        struct sockaddr_storage s;
        char bytes[128];
        int words[32];
    } u;
    for (int i = 0; i < 3;
         i++) { // the three are the same connection's, so that the first of them may be answered before
        int which = i == 1 ? listener : fd;
        socklen_t n = 4;
        memset(&u, 0x55, sizeof u);
        CHECK(getsockname(which, (void *)&u, &n) == 0 && n == address_size && u.bytes[3] != 0x55 &&
              u.bytes[4] == 0x55);
        n = (socklen_t)-1;
        CHECK(getsockname(which, (void *)&u, &n) == -1 && errno == EINVAL);
        n = 0;
        CHECK(getsockname(which, (void *)&u, &n) == 0 && n == address_size);
        n = sizeof u;
        CHECK(getsockname(which, (void *)8, &n) == -1 && errno == EFAULT);
        CHECK(getsockname(which, (void *)&u, (void *)8) == -1 && errno == EFAULT);
        u.words[1] = 128; // the length lies in the address
        CHECK(getsockname(which, (void *)&u, (void *)&u.words[1]) == 0);
        has_name(which);
    }
    CHECK(listen(listener, 7) == 0);
    has_name(listener);
    request(fd);
    close(fd);
    answered(0, 0);
}

static void unread(void) { // bytes in the queue: the peer is reset
    int fd = next();
    CHECK(recv(fd, got, 3, 0) == 3);
    CHECK(send(fd, "part", 4, 0) == 4);
    CHECK(close(fd) == 0);
    struct answer a;
    MUST(read(told[0], &a, sizeof a));
    CHECK(a.error == ECONNRESET);
    fd = next();
    CHECK(close(fd) == 0);
    answered(0, ECONNRESET);
}

static void lingers(void) {
    struct linger l = {1, 0}, none = {0, 0};
    int fd = next();
    request(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    CHECK(close(fd) == 0);
    answered(0, ECONNRESET);
    MUST(setsockopt(listener, SOL_SOCKET, SO_LINGER, &l, sizeof l)); // its connections have it from it
    fd = next();
    request(fd);
    CHECK(close(fd) == 0);
    answered(0, ECONNRESET);
    MUST(setsockopt(listener, SOL_SOCKET, SO_LINGER, &none, sizeof none));
}

static void shared(void) { // the connection ends with its last descriptor
    int fd = next(), copy;
    request(fd);
    copy = MUST(dup(fd));
    CHECK(close(fd) == 0);
    CHECK(send(copy, "still", 5, 0) == 5);
    CHECK(close(copy) == 0);
    answered(5, 0);
    fd = next();
    request(fd);
    int child = MUST(fork());
    if (!child) {
        CHECK(send(fd, "child", 5, 0) == 5);
        _exit(wrong);
    }
    CHECK(close(fd) == 0);
    int status;
    MUST(waitpid(child, &status, 0));
    CHECK(status == 0);
    answered(5, 0);
    fd = next(); // the other listening socket takes the number
    request(fd);
    MUST(dup2(other, fd));
    struct sockaddr_in s;
    socklen_t n = sizeof s;
    CHECK(getsockname(fd, (void *)&s, &n) == 0 && s.sin_port != address.sin6_port);
    CHECK(recv(fd, got, 1, 0) == -1 && errno == ENOTCONN);
    CHECK(close(fd) == 0);
    answered(0, 0);
}

static void options(void) {
    int one = 1, fd = next();
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    MUST(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
    request(fd);
    CHECK(send(fd, "head", 4, 0) == 4);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    answered(4, 0);
    CHECK(recv(fd, got, 1, 0) == 0);
    CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(close(fd) == 0);
    is_closed(fd);
}

// open(2) gives the lowest number, also if a close that was completed has made it free.
static void numbers(int round) {
    struct stat st;
    int fd = next(), file, again;
    request(fd);
    file = MUST(open("file", O_RDONLY));
    CHECK(file > fd && fstat(file, &st) == 0);
    CHECK(send(fd, "text", 4, 0) == 4);
    CHECK(close(round & 1 ? fd : file) == 0);
    CHECK(close(round & 1 ? file : fd) == 0);
    again = MUST(open("file", O_RDONLY));
    CHECK(again == fd);
    CHECK(fstat(again, &st) == 0 && fstat(file, &st) == -1 && errno == EBADF);
    CHECK(close(again) == 0);
    answered(4, 0);
}

static void serve(int family) {
    memset(&address, 0, sizeof address);
    address.sin6_family = (sa_family_t)family;
    address_size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof address;
    if (family == AF_INET6)
        address.sin6_addr = in6addr_loopback;
    else
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = MUST(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(bind(listener, (void *)&address, address_size));
    MUST(listen(listener, 10));
    socklen_t n = sizeof address;
    MUST(getsockname(listener, (void *)&address, &n));
    int child;
    MUST(pipe(sent)), MUST(pipe(seen));
    order[1] = sent[1], told[0] = seen[0];
    if (!(child = MUST(fork()))) {
        close(listener), close(sent[1]);
        peer();
    }
    close(sent[0]), close(seen[1]);
    for (int round = 0; round < 120; round++)
        plain(round);
    say("plain");
    flags();
    names();
    unread();
    lingers();
    shared();
    options();
    for (int round = 0; round < 40; round++)
        plain(round), numbers(round);
    flags(), names(), unread(), lingers(), shared(), options();
    close(order[1]), close(told[0]), close(listener);
    int status;
    MUST(waitpid(child, &status, 0));
    say("family %d: %s, peer %d", family, wrong ? "wrong" : "right", status);
}

int main(void) {
    other = MUST(socket(AF_INET, SOCK_STREAM, 0));
    heart = MUST(open("heart", O_RDWR | O_CREAT, 0600));
    MUST(unlink("heart"));
    MUST(close(MUST(open("file", O_WRONLY | O_CREAT, 0600))));
    serve(AF_INET);
    serve(AF_INET6);
    return wrong;
}
