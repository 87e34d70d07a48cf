// Random and chosen words into every page that a program may write between the window and the host's addresses, by threads and by
// a process that shares the memory, while others call, get signals, fork and execute: what is written there makes no call
// that a filter refuses, and stops no monitor.
#include "attack.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/socket.h>

#define FIRST 0x6c0000000000UL
#define PAGES (0x100 + 8 * 8) // the shared pages and eight areas
#define WORDS (4096 / 8)

static unsigned long pages[PAGES];
static unsigned count;
static sigjmp_buf back;
static volatile int over;

static void faulted(int sig) { siglongjmp(back, sig); }
static void nothing(int sig) { (void)sig; }

static void find_pages(void) {
    struct sigaction a = {.sa_handler = faulted, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &a, NULL);
    for (unsigned i = 0; i < PAGES; i++)
        if (sigsetjmp(back, 1) == 0) {
            volatile unsigned long *page = (void *)(FIRST + i * 4096UL);
            page[WORDS - 1] = page[WORDS - 1];
            pages[count++] = FIRST + i * 4096UL;
        }
    signal(SIGSEGV, SIG_DFL);
}

// The registers of a call of socket(2), or of one that only asks.
static unsigned long chosen(unsigned long x) {
    static const unsigned long words[] = {SYS_getpid,
                                          SYS_socket,
                                          SYS_getuid,
                                          1,
                                          2,
                                          0,
                                          ~0UL,
                                          0x6c0000002000UL,
                                          0x6c0000100000UL,
                                          0x800000000000UL,
                                          0x69ffffffffe0UL,
                                          0x6c8000000000UL,
                                          0x6c8000010010UL};
    return words[x % (sizeof words / sizeof words[0])];
}

static int scribbles(void *seed) {
    unsigned long x = (unsigned long)seed * 0x9e3779b97f4a7c15UL;
    while (!over)
        for (unsigned i = 0; count && i < 1000; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            volatile unsigned long *page = (void *)pages[x % count];
            // Random, but no number of a call that ends the process or makes a descriptor.
            page[x >> 32 & (x >> 50 & 1 ? 15 : WORDS - 1)] =
                x >> 51 & 3 ? chosen(x >> 20) : x | 1UL << 40 | 0x800;
        }
    return 0;
}
static void *scribbling(void *seed) { return scribbles(seed), NULL; }

static void refuse_socket(void) {
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = {sizeof f / sizeof f[0], f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0)
        attack_broken("seccomp");
}

static void *calls(void *unused) {
    while (!over)
        for (int i = 0; i < 100; i++) {
            struct sigaction a;
            syscall(SYS_getpid);
            syscall(SYS_rt_sigaction, SIGHUP, NULL, &a, 8);
            syscall(SYS_getuid);
        }
    return unused;
}

// Ends in any way; the descriptors are those of before.
static void try(void *argument) {
    static char stack[65536] __attribute__((aligned(16)));
    unsigned long seed = (unsigned long)argument;
    pthread_t t[3];
    socket(AF_INET, SOCK_STREAM, 0); // the pages for sockets are in use
    refuse_socket();
    alarm(2);
    signal(SIGUSR1, nothing);
    int number = dup(1);
    close(number);
    pid_t me = getpid(), relative = -1;
    if (seed &
        1) // a process of one thread, whose signal actions may be set without an exit, and its relative
        relative = clone(scribbles, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)seed);
    else
        for (int i = 0; i < 3; i++)
            pthread_create(&t[i], NULL, i ? scribbling : calls, (void *)(seed + (unsigned long)i));
    for (int i = 0; i < 60; i++) {
        struct sigaction a = {0};
        for (int sig = 1; sig < 32; sig++) {
            syscall(SYS_rt_sigaction, sig, NULL, &a, 8);
            syscall(SYS_rt_sigaction, SIGXCPU, &a, NULL, 8);
        }
        kill(me, SIGUSR1);
        if (i % 10 == 0) {
            pid_t c = fork();
            if (c == 0) {
                if (i % 20 == 0)
                    execl("/proc/self/exe", "attack", "executed", NULL);
                _exit(0);
            }
        }
        int now = dup(1);
        if (now > number + 1)
            attack_won("descriptor %d instead of %d: a refused call was made", now, number);
        close(now);
    }
    if (relative > 0)
        kill(relative, SIGKILL);
    _exit(0);
}

int main(int argc, char **argv) {
    long pid = getpid();
    (void)argv;
    if (argc > 1)
        return 0;
    close(socket(AF_INET, SOCK_STREAM, 0)); // maps them
    find_pages();
    for (int i = 0; i < 4000; i++)
        syscall(SYS_getpid); // a site that is patched
    for (unsigned long i = 1; !attack_over(); i++) {
        if (attack_child_won(attack_child(try, (void *)i)))
            _exit(ATTACK_WON);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (syscall(SYS_getpid) != pid)
            attack_won("getpid gives another process's number");
    }
    attack_lost();
}
