// Forged records of sends, and forged counts of bytes read, in the memory by which sends on TCP sockets are completed inside the guest: on
// descriptors that are no sockets, that a child has inherited, that another socket had before, that a filter forbids
// to send on. Nothing arrives where a send call would send nothing, and no monitor stops.
#include "attack.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>

// guest/socketpage.h
#define AREA 0x6c0000040000UL
#define USED ((volatile unsigned long *)(AREA + 0x20000))
#define SPENT ((volatile unsigned long *)(AREA + 0x22000))
#define TAIL ((volatile unsigned long *)(AREA + 0x24000))
#define QUEUE (AREA + 0x30000)
#define QUEUE_SIZE 0x10000UL
struct record {
    unsigned fd, len, gen, pad;
    char data[16];
};

static sigjmp_buf back;
static void faulted(int sig) { siglongjmp(back, sig); }
static unsigned long x = 88172645463325252UL;
static unsigned long random_word(void) { return x ^= x << 13, x ^= x >> 7, x ^= x << 17; }

static struct sockaddr_in address;
static int listener, epoll;

static void connection(int pair[2]) {
    struct epoll_event e = {.events = EPOLLIN};
    pair[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(pair[1], (void *)&address, sizeof address) < 0 ||
        (pair[0] = accept4(listener, 0, 0, SOCK_NONBLOCK)) < 0)
        attack_broken("connection");
    e.data.fd = pair[0];
    epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &e);
}
// The server's end gets credit.
static void asked(int pair[2]) {
    struct epoll_event e;
    char b[8];
    if (write(pair[1], "?", 1) != 1 || epoll_wait(epoll, &e, 1, 10000) != 1)
        attack_broken("epoll");
    read(e.data.fd, b, sizeof b);
}

// Records for a descriptor, with every generation that it may have.
static void forge(int fd) {
    struct record r = {.fd = (unsigned)fd, .len = 8, .data = "forged!"};
    for (int rounds = 0; rounds < 2; rounds++) {
        unsigned long at = 0;
        for (unsigned gen = 0; gen < 64; gen++, at += 24) {
            r.gen = gen;
            memcpy((void *)(QUEUE + at), &r, 24);
        }
        *TAIL = at;
        syscall(SYS_getppid);
    }
}
static int arrived(int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    char b[64];
    return poll(&p, 1, 0) == 1 && recv(fd, b, sizeof b, MSG_DONTWAIT) > 0;
}
static int piped(int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1;
}

static void refuse_sends(void) {
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
    };
    struct sock_fprog p = {sizeof f / sizeof f[0], f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0)
        attack_broken("seccomp");
}

static void *scribbling(void *unused) {
    for (int i = 0; i < 200000; i++) {
        unsigned long w = random_word();
        switch (w & 7) {
        case 0:
            *TAIL = w >> 8 & 1 ? w >> 16 : w >> 40 & 0xffff;
            break;
        case 1:
            USED[w >> 8 & 63] = w >> 16 & 1 ? w : w >> 40 & 0xff;
            break;
        case 2:
            SPENT[w >> 8 & 63] = w >> 16;
            break;
        default:
            *(volatile unsigned *)(QUEUE + (w >> 8 & (QUEUE_SIZE - 4) & ~3UL)) =
                (unsigned)(w >> 32 & (w & 8 ? 63 : ~0U));
        }
    }
    return unused;
}

static void try(void *argument) {
    int p[2], q[2], pipe_ends[2], unix_ends[2];
    unsigned long seed = (unsigned long)argument;
    x += seed;
    alarm(10);
    connection(p), connection(q);
    if (pipe(pipe_ends) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, unix_ends) < 0)
        attack_broken("pipe");
    struct sigaction a = {.sa_handler = faulted, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &a, NULL);
    if (sigsetjmp(back, 1)) // calls are not completed inside the guest here
        _exit(0);
    *TAIL = 0;
    asked(p), asked(q);
    forge(pipe_ends[1]), forge(unix_ends[0]), forge(1000), forge(-1), forge(0x7fffffff);
    if (piped(pipe_ends[0]) || arrived(unix_ends[1]))
        attack_won("a forged record was written to a pipe or a Unix socket");
    int d = dup(q[0]);
    forge(q[0]), forge(d);
    if (arrived(q[1]))
        attack_won("a forged record was sent on a socket that another number has");
    asked(p);
    pid_t c = fork();
    if (c == 0) {
        forge(p[0]), forge(q[0]);
        _exit(0);
    }
    waitpid(c, NULL, 0);
    forge(p[0]);
    if (arrived(p[1]) || arrived(q[1]))
        attack_won("a forged record was sent on a socket that two processes have");
    int r[2];
    connection(r);
    asked(r);
    if (seed & 1) {
        refuse_sends();
        forge(r[0]);
        if (arrived(r[1]))
            attack_won("a forged record was sent though a filter refuses it");
        _exit(0);
    }
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, scribbling, NULL);
    for (int i = 0; i < 300; i++) {
        char b[64];
        struct epoll_event e;
        send(r[1], b, 1 + (size_t)(i & 31), MSG_DONTWAIT | MSG_NOSIGNAL);
        epoll_wait(epoll, &e, 1, 0);
        recv(r[0], b, 5, 0), send(r[0], b, 9, MSG_NOSIGNAL), recv(r[0], b, sizeof b, 0);
        recv(r[1], b, sizeof b, MSG_DONTWAIT);
    }
    if (piped(pipe_ends[0]) || arrived(unix_ends[1]) || arrived(q[1]) || arrived(p[1]))
        attack_won("a forged record went to a descriptor that has no credit");
    _exit(0);
}

int main(void) {
    socklen_t n = sizeof address;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    epoll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, n) < 0 || listen(listener, 64) < 0 ||
        getsockname(listener, (void *)&address, &n) < 0)
        attack_broken("listen");
    for (unsigned long i = 0; !attack_over(); i++)
        if (attack_child_won(attack_child(try, (void *)i)))
            _exit(ATTACK_WON);
    attack_lost();
}
