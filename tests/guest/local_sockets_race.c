// TCP sockets that another thread names, or a process that shares memory copies, while the thread that owns
// them sends and reads inside the guest: nothing is lost, and nobody gets bytes of another file: tcp(7),
// clone(2). krun: static musl timeout=60
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

static int epoll, listener;
static struct sockaddr_in address;

static int connected(void) {
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(fd, (void *)&address, sizeof address));
    return fd;
}
static int accepted(void) {
    int fd = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e));
    return fd;
}
static int ready(void) {
    struct epoll_event e = {0};
    return epoll_wait(epoll, &e, 1, 20000) == 1;
}

// Reads a byte after each wait, until the monitor has learned that this pays. Whether all came.
enum { WARM = 1000 };
static int warm(int fd) {
    char b = 0;
    int all = 1;
    for (int i = 0; i < WARM; i++)
        all &= ready() && read(fd, &b, 1) == 1 && b == 's';
    return all;
}

// Another thread names the socket while its owner sends numbers on it.
enum { CONNECTIONS = 12, BURST = 50, PAUSE = 30000 };
static volatile int sock, named, over;
static void *names(void *unused) {
    for (int i = 1; i <= CONNECTIONS; i++) {
        while (sock != i && !over)
            ;
        wrong |= fcntl(named, F_GETFD) != 0;
        named = -1;
    }
    return unused;
}
static void send_number(int fd, unsigned i) {
    while (write(fd, &i, sizeof i) != sizeof i)
        if (errno != EAGAIN)
            return (void)(wrong = 1);
}
static void numbers(void) {
    pid_t c = CHILD({
        int whole = 0;
        for (int i = 0; i < CONNECTIONS; i++) {
            int fd = connected();
            unsigned n, next = 0, all = 1;
            MUST(write(fd, "x", 1));
            while (recv(fd, &n, sizeof n, MSG_WAITALL) == sizeof n)
                all &= n == next++;
            whole += all && next;
            close(fd);
        }
        say("connections without a gap: %d", whole);
    });
    int fd = accepted();
    pthread_t t = thread(names, NULL);
    for (int i = 1;; fd = accepted()) {
        unsigned sent = 0;
        for (int bursts = 0, asked = 0; bursts < 4 || named >= 0; bursts++) {
            wrong |= !ready(); // the byte stays there: so each wait finds it
            for (int k = 0; k < BURST; k++) {
                send_number(fd, sent++);
                for (unsigned long since = __builtin_ia32_rdtsc(); __builtin_ia32_rdtsc() - since < PAUSE;)
                    ;
                if (bursts >= 2 && k == BURST / 8 && !asked++)
                    named = fd, sock = i;
            }
        }
        close(fd);
        if (i++ == CONNECTIONS)
            break;
    }
    over = 1;
    join(t);
    reap("peer", c);
}

// A process that shares the owner's memory forks: the child's descriptors are its own.
static volatile int forks_now, forked;
static char stack[65536] __attribute__((aligned(16)));
static int copied;
static int relative(void *unused) {
    (void)unused;
    while (!forks_now)
        ;
    pid_t f = fork();
    if (f == 0) {
        int p[2], q = -1;
        char b[4] = "";
        if (pipe(p) < 0 || write(p[1], "pipe", 4) != 4 || dup2(p[0], copied) != copied ||
            (q = socket(AF_INET, SOCK_STREAM, 0)) < 0)
            _exit(1);
        _exit(read(copied, b, 3) != 3 || memcmp(b, "pip", 3) ? 2 : 0);
    }
    int status = -1;
    waitpid(f, &status, 0);
    forked = 1;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
}
static void relatives(void) {
    pid_t c = CHILD({
        int fd = connected();
        char b[2000];
        memset(b, 's', sizeof b);
        MUST(write(fd, b, sizeof b));
        (void)!read(fd, b, sizeof b);
    });
    pid_t owner = CHILD({
        char b[8] = "";
        pid_t r = MUST(clone(relative, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
        copied = accepted();
        EXPECT(warm(copied));
        forks_now = 1;
        while (!forked)
            ;
        EXPECT(read(copied, b, 5) == 5 && !memcmp(b, "sssss", 5));
        reap("relative", r);
    });
    reap("owner", owner), reap("peer", c);
}

// A connection inherits options of the socket that has accepted it. With TCP_NOTSENT_LOWAT a send of a full
// connection is EAGAIN long before the send buffer is full; with SO_RCVLOWAT a read waits for more than one
// byte.
static void inherits(void) {
    int small = 4096, lowat = 1;
    struct shared {
        volatile int full;
    } *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(setsockopt(listener, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof lowat));
    pid_t c = CHILD({
        int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
        static char b[2000];
        long n;
        unsigned long all = 0;
        MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
        MUST(connect(fd, (void *)&address, sizeof address));
        memset(b, 's', sizeof b);
        MUST(write(fd, b, WARM + 1));
        while (!s->full)
            usleep(1000);
        while ((n = read(fd, b, sizeof b)) > 0)
            all += (unsigned long)n;
        say("all arrived: %d, then %s", all == (unsigned long)s->full, n ? errno_name(errno) : "the end");
    });
    int fd = accepted(), sent = 0;
    static char data[1000];
    long n = sizeof data;
    EXPECT(warm(fd));
    for (int bursts = 0; n > 0 && bursts < 100; bursts++) {
        wrong |= !ready();
        for (int k = 0; n > 0 && k < 40; k++)
            if ((n = write(fd, data, sizeof data)) > 0)
                sent += (int)n;
    }
    say("full: %s", n < 0 ? errno_name(errno) : "no");
    s->full = sent;
    EXPECT(read(fd, data, 1) == 1); // else the end would be a reset
    MUST(shutdown(fd, SHUT_WR));
    close(fd), reap("peer", c);
    lowat = 0, MUST(setsockopt(listener, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof lowat));

    lowat = 4, MUST(setsockopt(listener, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof lowat));
    s->full = 0;
    c = CHILD({
        int own = connected();
        static char b[2000];
        memset(b, 's', sizeof b);
        MUST(write(own, b, WARM + 8));
        while (!s->full)
            usleep(1000);
        usleep(20000);
        MUST(write(own, b, 10));
        (void)!read(own, b, 1);
    });
    fd = accepted();
    MUST(fcntl(fd, F_SETFL, 0));
    EXPECT(warm(fd));
    int six = ready() && read(fd, data, 6) == 6;
    s->full = 1;
    n = read(fd, data, 100);
    EXPECT(six && n >= lowat);
    close(fd), reap("peer", c);
    lowat = 1, MUST(setsockopt(listener, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof lowat));
}

int main(void) {
    socklen_t n = sizeof address;
    listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), epoll = MUST(epoll_create1(0));
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (void *)&address, n)), MUST(listen(listener, 16)),
        MUST(getsockname(listener, (void *)&address, &n));
    relatives();
    inherits();
    for (int i = 0; i < 6; i++) // after a few, a process gets no more such sockets
        reap("owner", CHILD({ numbers(); }));
    return wrong;
}
