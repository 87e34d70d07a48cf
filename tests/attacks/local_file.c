// Forged records of sendfile, close and open, by which these calls are completed inside the guest on a file that has just been
// opened: for other numbers, for the monitor's, later than the next exit, where a filter forbids the call, where a child has the
// number, too. Nothing is closed, opened or sent that the calls themselves would not close, open or send, no number is lost, and no
// monitor stops.
#include "attack.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>

// guest/socketpage.h
#define AREA 0x6c0000040000UL
#define FILE_GEN ((volatile unsigned *)(AREA + 0x40))
#define TAIL ((volatile unsigned long *)(AREA + 0x24000))
#define CLOSED ((volatile unsigned *)(AREA + 0x24008))
#define QUEUE (AREA + 0x30000)
struct record {
    unsigned fd, len, gen, kind; // kind 1: a part of the file; 2: close; 3: open
    unsigned long offset;
};

static sigjmp_buf back;
static void faulted(int sig) { siglongjmp(back, sig); }
static struct sockaddr_in address;
static int listener, epoll;
static const char *name;

static void connection(int pair[2]) { // the server's end gets credit
    struct epoll_event e = {.events = EPOLLIN};
    char b[8];
    pair[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(pair[1], (void *)&address, sizeof address) < 0 ||
        (pair[0] = accept4(listener, 0, 0, SOCK_NONBLOCK)) < 0)
        attack_broken("connection");
    e.data.fd = pair[0];
    epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &e);
    if (write(pair[1], "?", 1) != 1 || epoll_wait(epoll, &e, 1, 10000) != 1)
        attack_broken("epoll");
    read(e.data.fd, b, sizeof b);
}

// Records of one kind, or two in turn, for a descriptor, with every generation that may be right. Ends with an exit.
static void forge(int fd, unsigned kinds, unsigned long offset) {
    struct record r = {.fd = (unsigned)fd, .len = kinds == 1 ? 8 : 0, .offset = offset};
    unsigned long at = 0, size = kinds == 1 ? 24 : 16;
    unsigned now = *FILE_GEN;
    *CLOSED = now - 1;
    for (unsigned gen = 0; gen < 400; gen++)
        for (unsigned kind = kinds; kind; kind /= 10, at += size) {
            r.gen = gen, r.kind = kind % 10;
            memcpy((void *)(QUEUE + at), &r, size);
        }
    *TAIL = at;
    syscall(SYS_getppid);
}
static int arrived(int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    char b[64];
    return poll(&p, 1, 0) == 1 && recv(fd, b, sizeof b, MSG_DONTWAIT) > 0;
}
static int opened(const char *path) { // after calls that are completed, so that calls on the file would be
    for (int i = 0; i < 40; i++)
        syscall(SYS_getpid);
    return open(path, O_RDONLY);
}
static int is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }
static int numbers(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += is_open(fd);
    return n;
}

static void refuse(int nr) {
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
    };
    struct sock_fprog p = {sizeof f / sizeof f[0], f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0)
        attack_broken("seccomp");
}

static void try(void *argument) {
    int p[2], pipe_ends[2];
    unsigned long seed = (unsigned long)argument;
    alarm(10);
    connection(p);
    if (pipe(pipe_ends) < 0)
        attack_broken("pipe");
    struct sigaction a = {.sa_handler = faulted, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &a, NULL);
    if (sigsetjmp(back, 1)) // calls are not completed inside the guest here
        _exit(0);
    *TAIL = 0;
    // Other numbers, the monitor's among them; the file itself may go.
    for (int fd = 0; fd < 1024; fd += seed & 1 ? 1 : 7) {
        if (fd >= 64 && fd < 900 && fd % 50)
            continue;
        int f = opened(name);
        forge(fd, 2, 0);
        close(f);
    }
    if (!is_open(p[0]) || !is_open(p[1]) || !is_open(pipe_ends[0]) || !is_open(pipe_ends[1]) ||
        !is_open(epoll))
        attack_won("a forged record has closed another number");
    // The file again: there is one, it is the file, and it is at its number.
    int before = numbers(), f = opened(name);
    char magic[4] = "";
    forge(f, 3232, 0), forge(f, 3, 0), forge(f, 23, 0), forge(seed & 1 ? p[0] : f + 1, 323, 0);
    if (numbers() != before + 1 || read(f, magic, 4) != 4 || memcmp(magic, "\177ELF", 4))
        attack_won("a forged record has opened something else");
    close(f);
    f = opened("/dev/zero"), forge(f, 32, 0), forge(f, 3, 0);
    if (numbers() != before + 1 || !is_open(f))
        attack_won("a record of an open of a device");
    close(f);
    f = opened(name), forge(f, 2, 0), forge(f, 3, 0); // the exit was before
    if (is_open(f) && numbers() != before + 1)
        attack_won("a record of an open counts behind the next exit");
    close(f);
    // Later than the next exit.
    f = opened(name);
    syscall(SYS_getppid);
    forge(f, 2, 0), forge(p[0], 1, 0);
    if (!is_open(f) || arrived(p[1]))
        attack_won("a record counts behind the next exit");
    close(f);
    // No file for reading, no regular file.
    f = opened("/dev/zero"), forge(f, 2, 0), forge(p[0], 1, 0);
    if (!is_open(f) || arrived(p[1]))
        attack_won("a record of a device");
    close(f);
    // Places that the file has not: the connection may end.
    f = opened(name), forge(p[0], 1, seed & 2 ? ~0UL - 4 : 1UL << 40);
    close(f);
    if (arrived(p[1]))
        attack_won("bytes behind the end of the file");
    int r[2];
    connection(r);
    refuse(seed & 4 ? SYS_sendfile : SYS_close);
    f = opened(name), forge(r[0], 1, 0);
    int g = opened(name);
    forge(g, 2, 0);
    if (!is_open(f) || !is_open(g) || arrived(r[1]))
        attack_won("a record counts though a filter refuses the call");
    _exit(0);
}

int main(int argc, char **argv) {
    socklen_t n = sizeof address;
    (void)argc;
    name = argv[0];
    listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&address, n) < 0 || listen(listener, 64) < 0 ||
        getsockname(listener, (void *)&address, &n) < 0)
        attack_broken("listen");
    for (unsigned long i = 1; !attack_over(); i++)
        if (attack_child_won(attack_child(try, (void *)i)))
            _exit(ATTACK_WON);
    attack_lost();
}
