// The same file opened again and again between two waits, as a server of files does it, in one process with
// one thread: what each call gives, and what those see who watch the file: openat(2), open(2), inotify(7).
// krun: static musl timeout=60
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#define CLIENTS 6
#define CHECK(condition)                                                                                     \
    ((condition) ? (void)0 : (void)(wrong = 1, say("NOT %s (line %d)", #condition, __LINE__)))

static int epoll, listener, clients[CLIENTS][2], directory;
static struct sockaddr_in address;
static char got[65536];

static void connection(int pair[2]) { // the server's end, which epoll watches, and the client's
    socklen_t n = sizeof address;
    int one = 1;
    pair[1] = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(pair[1], (void *)&address, n));
    pair[0] = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    MUST(setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    MUST(setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = (unsigned)pair[0]};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &e));
}

// All clients ask; one wait finds them all, mostly. answer() serves one.
static int served;
static void turn(void (*answer)(int fd, int number), size_t bytes) {
    struct epoll_event e[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        MUST(write(clients[i][1], "?", 1));
    for (int left = CLIENTS; left;) {
        int n = epoll_wait(epoll, e, CLIENTS, 10000);
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        for (int i = 0; i < n; i++, left--) {
            CHECK(read(e[i].data.fd, got, 100) == 1);
            answer(e[i].data.fd, served++);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        size_t have = 0;
        for (long n; have < bytes && (n = recv(clients[i][1], got + have, bytes - have, 0)) > 0;)
            have += (size_t)n;
        CHECK(have == bytes && !memcmp(got, "head content", bytes < 12 ? bytes : 12));
    }
}

static int first; // the lowest free number
static const char *name = "again";
static int how = O_RDONLY | O_NONBLOCK, flags;
static void plain(int fd, int number) {
    struct stat st;
    off_t at = 0;
    int f = number & 1 ? MUST(open(name, how)) : (int)MUST(syscall(SYS_openat, AT_FDCWD, name, how));
    CHECK(f == first);
    CHECK(fstat(f, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 7);
    CHECK(write(fd, "head ", 5) == 5);
    CHECK(sendfile(fd, f, &at, 7) == 7 && at == 7);
    CHECK(close(f) == 0);
}

static void copied(int fd, int number) { // without sendfile(2)
    struct stat st, now;
    char b[8] = "";
    off_t at = 2;
    int f = MUST(open(name, how));
    CHECK(f == first && fstat(f, &st) == 0);
    CHECK(pread(f, b, 7, 0) == 7 && write(fd, "head ", 5) == 5);
    CHECK(write(fd, b, number % 4 ? 7 : 2) > 0);
    CHECK(fstat(f, &now) == 0 && now.st_ino == st.st_ino && now.st_size == 7);
    CHECK(number % 4 || (read(f, b, 2) == 2 && sendfile(fd, f, &at, 1 << 20) == 5 && at == 7));
    CHECK(write(fd, "", 0) == 0 && close(f) == 0 && (number % 3 || (close(f) < 0 && errno == EBADF)));
    CHECK((f = MUST(open("other", how))) == first && read(f, b, 7) == 5 && b[0] == '1' && close(f) == 0);
}

// The last of a turn does something else with the file.
static void description(int fd, int number) {
    plain(fd, number);
    if (number % CLIENTS != CLIENTS - 1)
        return;
    char b[8] = "";
    int f = MUST(open(name, how)), other;
    CHECK(f == first);
    CHECK(lseek(f, 0, SEEK_CUR) == 0 && read(f, b, 3) == 3 && !memcmp(b, "con", 3));
    flags = fcntl(f, F_GETFL);
    CHECK(fcntl(f, F_GETFD) == (how & O_CLOEXEC ? FD_CLOEXEC : 0));
    CHECK((other = MUST(open(name, how))) == first + 1);
    CHECK(lseek(other, 0, SEEK_CUR) == 0 && lseek(f, 0, SEEK_CUR) == 3);
    CHECK(close(f) == 0 && close(f) < 0 && errno == EBADF);
    CHECK(MUST(open("other", how)) == first && read(first, b, 7) == 5 && !memcmp(b, "12345", 5));
    CHECK(close(first) == 0 && close(other) == 0);
    CHECK(open("no file", how) < 0 && errno == ENOENT);
    CHECK(syscall(SYS_open, (char *)8, how) < 0 && errno == EFAULT);
    CHECK((f = MUST(open(name, how))) == first && close(f) == 0);
    CHECK((f = MUST(open(name, how ^ O_CLOEXEC))) == first && close(f) == 0);
    CHECK((f = MUST(openat(directory, name, how))) == first && close(f) == 0);
    CHECK(openat(directory, "again/", how) < 0 && errno == ENOTDIR);
    CHECK((f = MUST(open(name, how))) == first && close(f) == 0);
    CHECK((f = MUST(open("other", how))) == first && pread(f, b, 5, 0) == 5 && b[0] == '1' && close(f) == 0);
}

static void watched(int rounds) { // the events of a turn, in their order
    int events = MUST(inotify_init1(IN_NONBLOCK)), opens = 0, closes = 0, was = 0;
    MUST(inotify_add_watch(events, name, IN_OPEN | IN_CLOSE_NOWRITE));
    first = MUST(dup(0)), close(first);
    for (int i = 0; i < rounds; i++)
        turn(plain, 12);
    for (ssize_t n; (n = read(events, got, sizeof got)) > 0;)
        for (char *at = got; at < got + n; at += sizeof(struct inotify_event)) {
            int now = ((struct inotify_event *)at)->mask == IN_OPEN;
            CHECK(now != was); // open, close, open, close
            now ? opens++ : closes++, was = now;
        }
    say("opens %d closes %d", opens, closes);
    close(events), first = MUST(dup(0)), close(first);
}

static void replaced(void) { // by another process, which says so
    int go[2], answer[2];
    char c;
    MUST(pipe(go)), MUST(pipe(answer));
    pid_t pid = CHILD({
        close(go[1]), close(answer[0]);
        while (read(go[0], &c, 1) == 1) {
            int f = open("new", O_CREAT | O_TRUNC | O_WRONLY, 0600);
            write(f, "replaced by another one", 23), close(f);
            rename("new", name), write(answer[1], &c, 1);
        }
        _exit(0);
    });
    close(go[0]), close(answer[1]);
    struct stat st;
    int f = MUST(open(name, how));
    CHECK(close(f) == 0 && (f = MUST(open(name, how))) >= 0 && close(f) == 0);
    MUST(write(go[1], "x", 1)), MUST(read(answer[0], &c, 1));
    CHECK((f = MUST(open(name, how))) >= 0 && fstat(f, &st) == 0 && st.st_size == 23);
    CHECK(unlink(name) == 0 && close(f) == 0 && open(name, how) < 0 && errno == ENOENT);
    close(go[1]), close(answer[0]);
    MUST(waitpid(pid, NULL, 0));
}

static void nothing(int sig) { (void)sig; }

int main(int argc, char **argv) {
    socklen_t n = sizeof address;
    (void)argc, (void)argv;
    int fd = MUST(open(name, O_CREAT | O_TRUNC | O_RDWR, 0600));
    EXPECT(write(fd, "content", 7) == 7);
    close(fd), fd = MUST(open("other", O_CREAT | O_TRUNC | O_RDWR, 0600)), EXPECT(write(fd, "12345", 5) == 5),
               close(fd);
    directory = MUST(open(".", O_RDONLY | O_DIRECTORY));
    listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), epoll = MUST(epoll_create1(0));
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (void *)&address, n)), MUST(listen(listener, 16)),
        MUST(getsockname(listener, (void *)&address, &n));
    for (int i = 0; i < CLIENTS; i++)
        connection(clients[i]);
    first = MUST(dup(0)), close(first);
    for (int i = 0; i < 60; i++)
        turn(plain, 12);
    say("plain");
    for (int i = 0; i < 60; i++)
        how ^= i % 3 ? 0 : O_CLOEXEC, turn(description, 12);
    say("flags with O_CLOEXEC %s: %o", how & O_CLOEXEC ? "on" : "off", flags);
    how ^= O_CLOEXEC, turn(description, 12);
    say("description: flags %o", flags);
    how = O_RDONLY | O_NONBLOCK;
    for (int i = 0; i < 60; i++)
        turn(copied, 12);
    say("copied");
    watched(30);
    struct itimerval soon = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    on(SIGALRM, nothing, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    for (int i = 0; i < (int)scaled(150); i++)
        turn(i & 1 ? plain : description, 12);
    MUST(setitimer(ITIMER_REAL, &never, NULL));
    say("mixture");
    replaced();
    return wrong;
}
