// Patched sites (docs/calls.md) under races: threads call by them while siblings make the text writable, unmap and replace it, move it,
// fork, and while a process that shares the memory does the same and is killed, and writes wherever the code for completed
// calls stores. Writable text never shows a jump of the monitor's, a new mapping is never changed, a filter is never
// passed by, no monitor ends.
#include "attack.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#define SIZE 8192UL
#define WORDS 0x6c8000001f80UL // what patched sites store, of the vCPU that runs
#define AREA 0x6c0000101f80UL  // the same, of each vCPU
#define AREA_SIZE 0x8000UL

// A call of each form; 1 returns to its caller with -EPERM where a filter refuses.
static const unsigned char number[] = {0xb8, SYS_getpid, 0, 0, 0, 0x0f, 0x05, 0xc3},
                           compare[] = {0x89, 0xf8, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0xc3};
#define NUMBER 4090UL // across two pages
#define COMPARE 4160UL
static unsigned char truth[SIZE];
static unsigned char *text;
static int file;
static volatile int over, shared; // shared: another process changes the text, too

static long call(long nr) { return ((long (*)(long))(text + COMPARE))(nr); }

static void map_text(unsigned char *at) {
    text = mmap(at, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_DENYWRITE | (at ? MAP_FIXED : 0), file, 0);
    if (text == MAP_FAILED)
        attack_broken("mmap");
}

static void *calls(void *unused) {
    long me = getpid();
    while (!over)
        for (int i = 0; i < 50; i++) {
            ((long (*)(void))(text + NUMBER))();
            call(SYS_getpid);
            if (call(SYS_socket) >= 0)
                attack_won("a refused call was made");
            me += i;
        }
    return unused;
}

static void change(unsigned n) {
    switch (n % 5) {
    case 0:
    case 1:
        mprotect(text, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC);
        if (!shared && memcmp(text, truth, SIZE))
            attack_won("writable text has other bytes than its file");
        mprotect(text, SIZE, PROT_READ | PROT_EXEC);
        break;
    case 2:
        madvise(text, SIZE, MADV_DONTNEED);
        break;
    case 3:
        map_text(text);
        break;
    default: { // another file's: writable, so that no site of it is patched
        unsigned char *p = mmap(text, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                                MAP_PRIVATE | MAP_DENYWRITE | MAP_FIXED, file, 0);
        usleep(300);
        if (p != text || (!shared && memcmp(text, truth, SIZE)))
            attack_won("a new mapping has other bytes than its file");
        mprotect(text, SIZE, PROT_READ | PROT_EXEC);
    }
    }
}

static int relative(void *seed) {
    unsigned long x = (unsigned long)seed * 0x9e3779b97f4a7c15UL;
    static const unsigned long words[] = {0,
                                          39,
                                          41,
                                          ~0UL,
                                          0x6c0000100000UL,
                                          0x6c8000000000UL,
                                          0x6c8000010010UL,
                                          0x6a0000000000UL,
                                          0x800000000000UL,
                                          0x40302};
    for (unsigned i = 0;; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        volatile unsigned long *to = (void *)(x & 1 ? AREA + (x >> 8 & 3) * AREA_SIZE : WORDS);
        to[x >> 16 & 15] = words[(x >> 32) % (sizeof words / sizeof words[0])];
        if (i % 4096 == 0)
            mprotect(text, SIZE, i & 4096 ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE | PROT_EXEC);
    }
    return 0;
}

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

// Ends in any way.
static void try(void *argument) {
    static char stack[65536] __attribute__((aligned(16)));
    unsigned long seed = (unsigned long)argument;
    pthread_t t[2];
    pid_t hostile = -1;
    shared = seed % 3 == 0;
    refuse_socket();
    alarm(3);
    map_text(NULL);
    for (int i = 0; i < 3000; i++) {
        ((long (*)(void))(text + NUMBER))();
        call(SYS_getpid);
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, calls, NULL);
    for (unsigned i = 0; i < 40; i++) {
        change((unsigned)seed + i);
        usleep(1000);
        if (shared && i % 10 == 5) {
            if (hostile > 0)
                kill(hostile, SIGKILL);
            hostile = clone(relative, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)(seed + i));
        }
        if (i % 10 == 0) {
            pid_t c = fork();
            if (c == 0) {
                change(i / 10);
                for (int k = 0; k < 2000; k++)
                    ((long (*)(void))(text + NUMBER))();
                if (i % 20 == 0)
                    execl("/proc/self/exe", "attack", "executed", NULL);
                _exit(0);
            }
        }
    }
    over = 1;
    if (hostile > 0)
        kill(hostile, SIGKILL);
    _exit(0);
}

int main(int argc, char **argv) {
    long pid = getpid();
    (void)argv;
    if (argc > 1)
        return 0;
    memset(truth, 0x90, SIZE);
    memcpy(truth + NUMBER, number, sizeof number);
    memcpy(truth + COMPARE, compare, sizeof compare);
    file = memfd_create("text", 0);
    if (file < 0 || write(file, truth, SIZE) != (ssize_t)SIZE)
        attack_broken("memfd");
    unsigned long i;
    for (i = 1; !attack_over(); i++) {
        int status = attack_child(try, (void *)i);
        if (attack_child_won(status))
            _exit(ATTACK_WON);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
            attack_won("a monitor ended");
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (syscall(SYS_getpid) != pid)
            attack_won("getpid gives another process's number");
    }
    dprintf(1, "%lu rounds\n", i);
    attack_lost();
}
