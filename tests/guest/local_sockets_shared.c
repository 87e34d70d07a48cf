// TCP sockets that others have, too, or get while bytes of them have been seen or sent inside the guest:
// threads, children, programs, messages with descriptors, and a peer that ends: fork(2), unix(7), tcp(7).
// krun: static musl timeout=60
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int epoll, listener;
static struct sockaddr_in address;
static char got[1024];
#define EXPECT_QUIET(what) ((what) ? 1 : (wrong = 1, say("%s is WRONG", #what), 0))
static struct shared { volatile int go, done; } * s;

static int connected(void) {
    int one = 1, fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(fd, (void *)&address, sizeof address));
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    return fd;
}
static int accepted(void) {
    int one = 1, fd = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e));
    return fd;
}
static int ready(int fd) {
    struct epoll_event e = {0};
    return epoll_wait(epoll, &e, 1, 20000) == 1 && e.data.fd == fd;
}
// A client that sends `first`, and then reads what comes until the end.
static int client(const char *first) {
    return CHILD({
        int fd = connected(), n;
        long all = 0;
        MUST(write(fd, first, strlen(first)));
        while ((n = (int)read(fd, got + all, sizeof got - 1 - (size_t)all)) > 0)
            all += n;
        say("client of '%s': %ld '%s', then %s", first, all, got, n ? errno_name(errno) : "the end");
        s->done = 1;
    });
}
static void show(const char *what, int fd, size_t room) {
    memset(got, 0, sizeof got);
    long n = read(fd, got, room);
    n < 0 ? say("%s: %s", what, errno_name(errno)) : say("%s: %ld '%s'", what, n, got);
}
static void gone(const char *what, pid_t c, int fd) {
    close(fd);
    reap(what, c);
}

static void forks(void) {
    pid_t c = client("abcdefgh");
    int fd = accepted();
    EXPECT(ready(fd)), show("parent", fd, 2);
    EXPECT(write(fd, "1", 1) == 1);
    pid_t f = CHILD({
        show("child", fd, 3);
        EXPECT(write(fd, "2", 1) == 1);
        show("child", fd, 1);
    });
    reap("fork", f);
    EXPECT(write(fd, "3", 1) == 1), show("parent", fd, 100), show("parent", fd, 100);
    gone("client", c, fd);
    c = client("ijkl");
    fd = accepted();
    EXPECT(ready(fd)), show("parent", fd, 1), EXPECT(write(fd, "1", 1) == 1);
    f = vfork();
    if (f == 0) {
        char b[2];
        _exit(read(fd, b, 2) != 2 || b[0] != 'j' || write(fd, "2", 1) != 1);
    }
    reap("vfork", f);
    EXPECT(write(fd, "3", 1) == 1), show("parent", fd, 100);
    gone("client", c, fd);
}

static void passed(void) {
    pid_t c = client("abcdefgh");
    int fd = accepted(), pair[2], other = -1;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    EXPECT(ready(fd)), show("before", fd, 2), EXPECT(write(fd, "1", 1) == 1);
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } u = {.h = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof u};
    memcpy(CMSG_DATA(&u.h), &fd, sizeof fd);
    MUST(sendmsg(pair[0], &m, 0));
    char b;
    v.iov_base = &b;
    MUST(recvmsg(pair[1], &m, 0));
    memcpy(&other, CMSG_DATA(&u.h), sizeof other);
    show("the copy", other, 2), EXPECT(write(other, "2", 1) == 1);
    show("the first", fd, 2), EXPECT(write(fd, "3", 1) == 1);
    int third = (int)syscall(SYS_pidfd_getfd, MUST(syscall(SYS_pidfd_open, getpid(), 0)), fd, 0);
    if (third < 0)
        third = dup(fd);
    show("a third", third, 2), EXPECT(write(third, "4", 1) == 1);
    close(other), close(third), close(pair[0]), close(pair[1]);
    gone("client", c, fd);
}

static int thread_fd;
static void *reader(void *unused) {
    show("thread", thread_fd, 3);
    EXPECT(write(thread_fd, "2", 1) == 1);
    return unused;
}
static void threads(void) {
    pid_t c = client("abcdefghi");
    int fd = thread_fd = accepted();
    EXPECT(ready(fd)), show("main", fd, 2), EXPECT(write(fd, "1", 1) == 1);
    join(thread(reader, NULL));
    EXPECT(write(fd, "3", 1) == 1), show("main", fd, 2), show("main", fd, 100);
    gone("client", c, fd);
}

// Threads take bytes of the same sockets in turns, without any order: none is lost, none comes twice.
enum { TAKERS = 3, BYTES = 3000 };
static volatile unsigned char seen[BYTES * 2];
static volatile int taken, sock;
static void *taker(void *own_epoll) {
    while (taken < BYTES) {
        unsigned char b[64];
        struct epoll_event e;
        epoll_wait((int)(long)own_epoll, &e, 1, 1);
        long n = read(sock, b, 2 * (1 + (size_t)(taken & 15)));
        for (long i = 0; i + 1 < n; i += 2)
            __atomic_add_fetch(&seen[b[i] | b[i + 1] << 8], 1, __ATOMIC_RELAXED);
        if (n > 0)
            __atomic_add_fetch(&taken, (int)n / 2, __ATOMIC_RELAXED);
    }
    return NULL;
}
static void takers(void) {
    pid_t c = CHILD({
        int fd = connected();
        for (unsigned i = 0; i < BYTES; i += 10) {
            unsigned char b[20];
            for (unsigned k = 0; k < 10; k++)
                b[2 * k] = (unsigned char)(i + k), b[2 * k + 1] = (unsigned char)((i + k) >> 8);
            MUST(write(fd, b, 20));
        }
        (void)!read(fd, got, 1);
    });
    sock = accepted();
    pthread_t t[TAKERS];
    for (int i = 0; i < TAKERS; i++)
        t[i] = thread(taker, (void *)(long)epoll);
    taker((void *)(long)epoll);
    for (int i = 0; i < TAKERS; i++)
        join(t[i]);
    int once = 0;
    for (int i = 0; i < BYTES; i++)
        once += seen[i] == 1;
    say("taken once: %d", once);
    gone("client", c, sock);
}

// An answer, and then no call: it arrives all the same.
static void computing(void) {
    pid_t c = client("?");
    int fd = accepted();
    EXPECT(ready(fd)), show("asked", fd, 10);
    s->done = 0;
    MUST(shutdown(fd, SHUT_RD));
    gone("first", c, fd);
    c = CHILD({
        int own = connected();
        MUST(write(own, "?", 1));
        MUST(read(own, got, 100));
        say("answer '%s'", got);
        s->done = 1;
    });
    fd = accepted();
    s->done = 0;
    EXPECT(ready(fd)), show("asked", fd, 10);
    long sent = write(fd, "computed", 8);
    while (!s->done)
        ;
    EXPECT(sent == 8);
    gone("second", c, fd);
}

static void *heir(void *unused) {
    pause_ms(50); // the first thread has ended then, but nothing depends on it
    show("the other thread", thread_fd, 10);
    EXPECT(write(thread_fd, " other", 6) == 6);
    exit(wrong);
    return unused;
}
// Children that are made while connections come: they may have copies of them.
static volatile int forking;
static void *forker(void *unused) {
    while (forking) {
        pid_t c = fork();
        if (c == 0)
            _exit(0);
        waitpid(c, NULL, 0);
    }
    return unused;
}
static void meanwhile(void) {
    long all = 0;
    pthread_t t;
    forking = 1;
    t = thread(forker, NULL);
    for (int i = 0; i < 12; i++) {
        int c = connected(), fd = accepted();
        for (int k = 0; k < 3; k++) {
            EXPECT_QUIET(write(c, "question", 8) == 8 && ready(fd) && read(fd, got, 5) == 5 &&
                         read(fd, got, 9) == 3);
            EXPECT_QUIET(write(fd, "ans", 3) == 3 && write(fd, "wer", 3) == 3);
            for (long part = 0, n; part < 6; part += n, all += n) // a fork may end a call early
                n = MUST(recv(c, got, (size_t)(6 - part), 0));
        }
        close(c), close(fd);
    }
    forking = 0;
    join(t);
    say("answers while children are made: %ld", all);
}

static void ends(int argc, char **argv) {
    (void)argc;
    pid_t c = client("exit");
    pid_t f = CHILD({
        int fd = accepted();
        EXPECT(ready(fd)), show("exits", fd, 10), EXPECT(write(fd, "last words", 10) == 10);
        _exit(3);
    });
    reap("client", c), reap("exits", f);
    c = client("thread");
    f = CHILD({
        int fd = thread_fd = accepted();
        EXPECT(ready(fd)), show("the first thread", fd, 2), EXPECT(write(fd, "first", 5) == 5);
        EXPECT(write(fd, " again", 6) == 6), thread(heir, NULL);
        pthread_exit(NULL);
    });
    reap("client", c), reap("thread", f);
    c = client("exec");
    f = CHILD({
        int fd = accepted();
        EXPECT(ready(fd)), show("executes", fd, 2), EXPECT(write(fd, "before ", 7) == 7);
        char number[20];
        snprintf(number, sizeof number, "%d", fd);
        execl("/proc/self/exe", argv[0], number, NULL);
    });
    reap("client", c), reap("executes", f);
    c = client("fault");
    f = CHILD({
        int fd = accepted();
        EXPECT(ready(fd)), show("faults", fd, 10), EXPECT(write(fd, "still sent", 10) == 10);
        *(volatile int *)8 = 1;
    });
    reap("client", c), reap("faults", f);
    c = client("signal");
    f = CHILD({
        int fd = accepted();
        EXPECT(ready(fd)), show("kills itself", fd, 10), EXPECT(write(fd, "still sent", 10) == 10);
        raise(SIGTERM);
    });
    reap("client", c), reap("kills itself", f);
}

// The peer resets the connection between the wait and the send: the send succeeds or fails; the program
// learns of the reset once, and then the pipe is broken.
static volatile int pipes;
static void piped(int sig) { (void)sig, pipes++; }
static void resets(void) {
    on(SIGPIPE, piped, 0);
    s->done = 0;
    for (int how = 0; how < 4; how++) {
        pid_t c = CHILD({
            struct linger l = {1, 0};
            int fd = connected();
            MUST(write(fd, "abc", 3));
            while (s->go != how + 1)
                ;
            MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
            close(fd);
            s->done = how + 1;
        });
        int fd = accepted(), error = 0, reset = 0;
        socklen_t n = sizeof error;
        EXPECT(ready(fd)), show("before", fd, 1);
        EXPECT(ready(fd)), show("again", fd, 1);
        pipes = 0;
        s->go = how + 1;
        while (s->done != how + 1)
            ;
        if (how < 3)
            reset += write(fd, "y", 1) < 0 && errno == ECONNRESET;
        getppid();
        if (how == 3) { // a wait looks at it, and takes nothing
            fd_set set;
            struct timeval at_once = {0, 0};
            FD_ZERO(&set);
            FD_SET(fd, &set);
            EXPECT(select(fd + 1, &set, NULL, NULL, &at_once) == 1);
            for (int i = 0; i < 3; i++)
                reset += read(fd, got, 10) < 0 && errno == ECONNRESET;
        } else if (how == 1)
            EXPECT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0), reset += error == ECONNRESET;
        else if (how == 2 && !reset)
            for (int i = 0; i < 3; i++) // a byte may come first
                reset += read(fd, got, 10) < 0 && errno == ECONNRESET;
        else if (!reset)
            reset += write(fd, "z", 1) < 0 && errno == ECONNRESET;
        say("resets: %d, pipes %d", reset, pipes);
        TRY(write(fd, "z", 1)), say("pipes %d", pipes);
        TRY(send(fd, "z", 1, MSG_NOSIGNAL)), say("pipes %d", pipes);
        TRY(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n)), say("error %d", error);
        gone("peer", c, fd);
    }
}

int main(int argc, char **argv) {
    socklen_t n = sizeof address;
    if (argc > 1) {
        int fd = atoi(argv[1]);
        show("executed", fd, 10);
        return write(fd, "after", 5) != 5;
    }
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    listener = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
    epoll = MUST(epoll_create1(EPOLL_CLOEXEC));
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (void *)&address, n)), MUST(listen(listener, 16)),
        MUST(getsockname(listener, (void *)&address, &n));
    forks();
    passed();
    computing();
    ends(argc, argv);
    resets();
    threads();
    takers();
    meanwhile();
    return wrong;
}
