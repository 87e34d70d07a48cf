// A process of root's with threads makes children that share its memory and become user 1000 before they execute, as Go does for
// SysProcAttr.Credential. User 1000 stops such a child, again and again, at a moment at which it holds a lock of the monitor's: the
// threads of root's process must go on.
#include "attack.h"
#include <grp.h>
#include <pthread.h>

#define LONG 8.0 // seconds
#define TURNS 2000

static struct shared {
    volatile int child; // the number of the one that is user 1000 now
    volatile long beats;
} * shared;

static int child(void *unused) {
    attack_bare(SYS_setgroups, 0, 0, 0, 0, 0, 0);
    attack_bare(SYS_setresgid, 1000, 1000, 1000, 0, 0, 0);
    attack_bare(SYS_setresuid, 1000, 1000, 1000, 0, 0, 0);
    shared->child = (int)attack_bare(SYS_getpid, 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < TURNS; i++) {
        long p = attack_bare(SYS_mmap, 0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        attack_bare(SYS_munmap, p, 8192, 0, 0, 0, 0);
    }
    attack_bare(SYS_exit_group, 0, 0, 0, 0, 0, 0);
    return unused != NULL;
}

static void *makes(void *unused) {
    static char stack[65536] __attribute__((aligned(16)));
    for (;;) {
        pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        if (pid < 0)
            attack_broken("clone");
        waitpid(pid, NULL, __WALL);
        shared->child = 0;
    }
    return unused;
}

static void *beats(void *unused) {
    for (;; shared->beats++)
        munmap(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 8192);
    return unused;
}

static void as_root(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, makes, NULL);
    beats(NULL);
}

// Whether root's process stands while pid is kept stopped.
static int stands(pid_t pid) {
    long before = shared->beats;
    double end = attack_now() + LONG;
    for (int i = 0; shared->beats == before && attack_now() < end; i++) {
        usleep(1000);
        if (i > 30)
            kill(pid, SIGSTOP);
    }
    return shared->beats == before;
}

int main(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t root = fork();
    if (root == 0)
        as_root();
    usleep(200000);
    if (setgroups(0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
        attack_broken("setresuid");
    while (!attack_over()) {
        pid_t pid = shared->child;
        for (int i = rand() % 3000; i > 0; i--)
            __asm__ volatile("pause");
        if (!pid || kill(pid, SIGSTOP) < 0)
            continue;
        if (stands(pid))
            attack_won("a thread of root's stood for %g seconds while user 1000 had stopped its child", LONG);
        kill(pid, SIGKILL);
        while (shared->child == pid)
            usleep(100);
    }
    attack_lost();
}
