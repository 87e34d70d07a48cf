// Files sent on TCP sockets as servers do it, in one process with one thread: open, fstat, a header,
// sendfile, close; what each call gives, and what arrives, whatever call comes next: sendfile(2), fstat(2),
// close(2). krun: static musl timeout=60
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int epoll, listener;
static struct sockaddr_in address;
static char got[65536], content[40000];

#define CHECK(condition)                                                                                     \
    ((condition) ? (void)0 : (void)(wrong = 1, say("NOT %s (line %d)", #condition, __LINE__)))

// What calls have given is shown later, because to show it is another call.
static struct {
    const char *what;
    long result;
    int error;
} notes[100];
static size_t nnotes;
static void note(const char *what, long result, int error) {
    notes[nnotes].what = what, notes[nnotes].result = result, notes[nnotes++].error = error;
}
#define NOTE(call) (errno = 0, note(#call, (long)(call), 0), notes[nnotes - 1].error = errno)
static void tell(void) {
    for (size_t i = 0; i < nnotes; i++)
        notes[i].error ? say("%s: %s", notes[i].what, errno_name(notes[i].error))
                       : say("%s: %ld", notes[i].what, notes[i].result);
    nnotes = 0;
}

static void connection(int pair[2]) { // the server's end, which epoll watches, and the client's
    socklen_t n = sizeof address;
    int one = 1;
    pair[1] = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(pair[1], (void *)&address, n));
    pair[0] = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    MUST(setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    MUST(setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = pair[0]};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &e));
}
static void over(int pair[2]) { close(pair[0]), close(pair[1]); }
static void asked(int p[2]) { // the client asks; after this the server's end may be sent on
    struct epoll_event e = {0};
    MUST(write(p[1], "?", 1));
    while (epoll_wait(epoll, &e, 1, 10000) < 0 && errno == EINTR) {
    }
    CHECK(e.data.fd == p[0]);
    CHECK(read(p[0], got, 100) == 1);
}
static size_t take(int fd, size_t bytes) { // blocking; signals come
    size_t have = 0;
    for (long n; have < bytes && (n = recv(fd, got + have, bytes - have, 0)) > 0; have += (size_t)n) {
    }
    return have;
}
static void show_peer(const char *what, int fd, size_t bytes) { // blocking; exactly so many
    memset(got, 0, sizeof got);
    long n = recv(fd, got, bytes, MSG_WAITALL);
    say("%s: %ld '%.*s'", what, n, (int)(n < 60 ? n : 60), got);
}
static int first; // the lowest free number
static int opened(const char *name) {
    int fd = MUST(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd != first)
        wrong = 1, say("number %d, not %d", fd, first);
    return fd;
}

// The calls that a server makes, many times: most of them are completed once the way is known.
static void serve(int p[2], const char *name, off_t from, size_t size) {
    struct stat st, again;
    int fd = opened(name), wrong_bytes = 0;
    off_t at = from;
    CHECK(fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == sizeof content);
    CHECK(syscall(SYS_fstat, fd, &again) == 0 && !memcmp(&st, &again, sizeof st));
    CHECK(write(p[0], "head ", 5) == 5);
    CHECK(sendfile(p[0], fd, &at, size) == (ssize_t)size && at == from + (off_t)size);
    CHECK(close(fd) == 0);
    CHECK(take(p[1], 5 + size) == 5 + size && !memcmp(got, "head ", 5));
    for (size_t i = 0; i < size; i++)
        wrong_bytes += got[5 + i] != content[(size_t)from + i];
    CHECK(!wrong_bytes);
}
static void often(int p[2], int rounds) {
    for (int i = 0; i < rounds; i++)
        asked(p), serve(p, "file", (i * 37) % 20000, 1 + (size_t)(i * 331) % 16384);
}

// Each follows what a server does until then.
static void ends(int p[2]) {
    struct stat st;
    off_t at = 0;
    tell(), often(p, 20), asked(p);
    int fd = opened("file");
    NOTE(fstat(fd, &st)), NOTE(sendfile(p[0], fd, &at, 4)), NOTE(close(fd));
    NOTE(fstat(fd, &st)), NOTE(close(fd)), NOTE(sendfile(p[0], fd, &at, 4)),
        NOTE(syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH));
    tell(), show_peer("closed", p[1], 4);
    tell(), often(p, 20), asked(p), fd = opened("file");
    NOTE(close(fd)), NOTE(opened("other") == fd), NOTE(fstat(fd, &st)), NOTE(st.st_size), NOTE(close(fd));
    tell(), often(p, 20), asked(p), fd = opened("file");
    at = 10, NOTE(sendfile(p[0], fd, &at, 4)), NOTE(lseek(fd, 0, SEEK_CUR)), NOTE(read(fd, got, 3));
    NOTE(sendfile(p[0], fd, NULL, 2)), NOTE(lseek(fd, 0, SEEK_CUR)), NOTE(close(fd));
    tell(), show_peer("offsets", p[1], 6);
    tell(), often(p, 20), asked(p), fd = opened("file");
    at = sizeof content - 3, NOTE(sendfile(p[0], fd, &at, 10)), NOTE(at), NOTE(sendfile(p[0], fd, &at, 10));
    at = -1, NOTE(sendfile(p[0], fd, &at, 10)), at = 1L << 40, NOTE(sendfile(p[0], fd, &at, 10));
    at = 0, NOTE(sendfile(p[0], fd, &at, 0)), NOTE(sendfile(p[0], fd, (void *)8, 3)),
    NOTE(sendfile(fd, p[0], &at, 3));
    char *read_only = MUSTP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char odd[16] = {0};
    NOTE(sendfile(p[0], fd, (void *)(odd + 1), 5)), NOTE(odd[1]);
    tell(), show_peer("the end", p[1], 8);
    NOTE(syscall(SYS_fstat, fd, read_only)), NOTE(syscall(SYS_fstat, fd, 8)),
        NOTE(syscall(SYS_newfstatat, fd, (void *)8, &st, AT_EMPTY_PATH));
    NOTE(syscall(SYS_newfstatat, fd, "x", &st, AT_EMPTY_PATH)), NOTE(syscall(SYS_newfstatat, fd, "", &st, 0)),
        NOTE(syscall(SYS_newfstatat, fd, "", &st, 0x800000));
    tell(), close(fd);
}

// What another process sees, after any other call of this one.
static void others(int p[2]) {
    struct stat st;
    int go[2], answer[2];
    MUST(pipe(go)), MUST(pipe(answer));
    pid_t pid = CHILD({
        char c;
        int fd = open("file", O_RDWR);
        close(go[1]), close(answer[0]);
        for (int i = 0; read(go[0], &c, 1) == 1; i++) {
            if (c == 'l')
                c = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 'y' : 'n', flock(fd, LOCK_UN);
            else if (c == 't')
                c = ftruncate(fd, 100) == 0 ? 'y' : 'n';
            else
                c = pwrite(fd, "changed", 7, 0) == 7 ? 'y' : 'n';
            write(answer[1], &c, 1);
        }
        _exit(0);
    });
    close(go[0]), close(answer[1]);
    char c;
#define ASK(what) (MUST(write(go[1], what, 1)), MUST(read(answer[0], &c, 1)), note(what, c, 0))
    first = answer[1] < go[0] ? answer[1] : go[0];
    tell(), often(p, 20), asked(p);
    int fd = opened("file");
    NOTE(flock(fd, LOCK_SH));
    ASK("l"), NOTE(close(fd));
    ASK("l");
    tell(), often(p, 20), asked(p), fd = opened("file");
    NOTE(fstat(fd, &st));
    ASK("t"), NOTE(fstat(fd, &st)), NOTE(st.st_size), NOTE(close(fd));
    asked(p), fd = opened("file");
    off_t at = 0;
    ASK("w"), NOTE(sendfile(p[0], fd, &at, 7)), NOTE(close(fd));
    tell(), show_peer("changed", p[1], 7);
    close(go[1]), close(answer[0]);
    MUST(waitpid(pid, NULL, 0));
}

static void nothing(int sig) { (void)sig; }
static void mixture(int p[2]) { // signals come at any instruction of it
    struct itimerval soon = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    on(SIGALRM, nothing, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    often(p, (int)scaled(1000));
    MUST(setitimer(ITIMER_REAL, &never, NULL));
    say("mixture");
}

int main(int argc, char **argv) {
    socklen_t n = sizeof address;
    (void)argc, (void)argv;
    int p[2], fd = MUST(open("file", O_CREAT | O_TRUNC | O_RDWR, 0600));
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (char)('a' + i % 23);
    EXPECT(write(fd, content, sizeof content) == sizeof content);
    close(fd), fd = MUST(open("other", O_CREAT | O_TRUNC | O_RDWR, 0600)), EXPECT(write(fd, "12345", 5) == 5),
               close(fd);
    listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), epoll = MUST(epoll_create1(0));
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (void *)&address, n)), MUST(listen(listener, 16)),
        MUST(getsockname(listener, (void *)&address, &n));
    connection(p);
    first = MUST(dup(0)), close(first);
    ends(p);
    mixture(p);
    others(p);
    over(p);
    return wrong;
}
