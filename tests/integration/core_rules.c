// Ends by abort() after preparing one case of core(5); see test_core.py. Pages of one byte mark mappings.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *marked(int flags, char mark) {
    char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    memset(p, mark, 4096);
    return p;
}

static void mappings(void) {
    marked(MAP_PRIVATE, 1);
    madvise(marked(MAP_PRIVATE, 2), 4096, MADV_DONTDUMP);
    mprotect(marked(MAP_PRIVATE, 3), 4096, PROT_NONE);
    mprotect(marked(MAP_PRIVATE, 4), 4096, PROT_READ);
    marked(MAP_SHARED, 5);
    char page[4096];
    memset(page, 6, sizeof page);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    if (write(fd, page, sizeof page) != sizeof page)
        _exit(1);
    memset(page, 0, sizeof page);
    mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    char *changed = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    memset(changed, 7, 4096);
    char *undone = marked(MAP_PRIVATE, 8);
    madvise(undone, 4096, MADV_DONTDUMP);
    madvise(undone, 4096, MADV_DODUMP);
    mmap(0, 1L << 34, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static int child(void *arg) {
    (void)arg;
    abort();
}

// Many threads that enter and leave the monitor's heap while one of them dies.
static char *many[300];
static volatile int ready;
static void *busy(void *arg) {
    char link[64];
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        execve("/proc/self/exe/x", many, many);
        readlink("/proc/self/fd/0", link, sizeof link);
    }
    return arg;
}

static void *vforks(void *arg) {
    for (;;) {
        pid_t pid = vfork();
        if (!pid)
            execl("/nonexistent", "x", (char *)0), _exit(0);
        waitpid(pid, 0, 0);
    }
    return arg;
}

static void *ends(void *arg) { return arg; }
static void *makes(void *arg) {
    for (pthread_t t;;)
        if (pthread_create(&t, 0, ends, 0) == 0)
            pthread_detach(t);
    return arg;
}

static void threads(void *(*fn)(void *), int n) {
    pthread_t t;
    for (int i = 0; i < n; i++)
        pthread_create(&t, 0, fn, 0);
}

static void *dies(void *arg) {
    while (!ready)
        ;
    abort();
    return arg;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    char stack[65536] __attribute__((aligned(16)));
    for (int i = 0; i < 299; i++)
        many[i] = "x";
    if (!strcmp(what, "later")) {
        struct rlimit limit = {0, 0};
        getrlimit(RLIMIT_CORE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_CORE, &limit);
    } else if (!strcmp(what, "undumpable")) {
        prctl(PR_SET_DUMPABLE, 0);
    } else if (!strcmp(what, "user")) {
        syscall(SYS_setresuid, 1000, 1000, 1000);
    } else if (!strcmp(what, "user-again")) {
        syscall(SYS_setresuid, 1000, 1000, 1000);
        prctl(PR_SET_DUMPABLE, 1);
    } else if (!strcmp(what, "fsuid")) {
        setfsuid(1000);
    } else if (!strcmp(what, "effective")) {
        syscall(SYS_setresuid, 1000, 0, 0);
        execl("/proc/self/exe", argv[0], "", (char *)0);
    } else if (!strcmp(what, "mappings")) {
        mappings();
    } else if (!strcmp(what, "stackless")) {
        munmap((void *)((unsigned long)&argc & ~0xfffful), 1 << 20);
    } else if (!strcmp(what, "child")) {
        pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0);
        waitpid(pid, 0, 0);
        return 0;
    } else if (!strcmp(what, "busy")) {
        threads(busy, 20);
        threads(vforks, 1);
        threads(makes, 1);
        while (ready < 20)
            ;
        usleep(5000);
    } else if (!strcmp(what, "two")) {
        threads(dies, 4);
        ready = 1;
    }
    abort();
}
