// User 1000 holds leases (F_SETLEASE of fcntl(2)) on its files. Threads of a process of root's open these files, and wait for the
// kernel to break the leases (45 s). Another thread of that process opens other files meanwhile, maps one and lists a directory: it
// must not wait for the descriptor slots that the waiting opens have.
#include "attack.h"
#include <grp.h>
#include <pthread.h>

#define FILES 12 // more than there are groups of slots
#define LONG 4.0 // seconds

static volatile long turns;
static volatile int opened;

static const char *name_of(long i, char *path, size_t size) {
    snprintf(path, size, "/tmp/leases/%ld", i);
    return path;
}

static void hold(int ready) {
    char path[64];
    if (setgroups(0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
        attack_broken("setresuid");
    signal(SIGIO, SIG_IGN);
    for (long i = 0; i < FILES; i++) {
        int fd = open(name_of(i, path, sizeof path), O_CREAT | O_RDWR, 0644);
        if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
            attack_broken("F_SETLEASE");
    }
    write(ready, "", 1);
    for (;;)
        pause();
}

static void *opens(void *i) {
    char path[64];
    name_of((long)i, path, sizeof path);
    if ((long)i % 4 == 3)
        truncate(path, 0);
    else
        open(path, O_RDONLY);
    opened++;
    return i;
}

static void *others(void *unused) {
    for (;; turns++) {
        int fd = open("/attack", O_RDONLY);
        void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        char entries[4096];
        int dir = open("/", O_RDONLY | O_DIRECTORY);
        if (fd < 0 || p == MAP_FAILED || dir < 0 || syscall(SYS_getdents64, dir, entries, sizeof entries) < 0)
            attack_broken("another thread");
        munmap(p, 4096);
        close(fd);
        close(dir);
        usleep(1000);
    }
    return unused;
}

int main(void) {
    int ready[2];
    char c;
    pthread_t thread;
    if (mkdir("/tmp/leases", 0777) < 0 || chmod("/tmp/leases", 0777) < 0 || pipe(ready) < 0)
        attack_broken("/tmp/leases");
    pid_t holder = fork();
    if (holder == 0)
        hold(ready[1]);
    read(ready[0], &c, 1);
    pthread_create(&thread, NULL, others, NULL);
    for (long i = 0; i < FILES; i++)
        pthread_create(&thread, NULL, opens, (void *)i);
    usleep(500000);
    if (opened)
        attack_broken("an open did not wait: the leases mean nothing");
    double end = attack_now() + LONG;
    for (long before = turns; turns == before;) {
        if (attack_now() > end)
            attack_won("a thread of root's stands as long as user 1000 holds leases");
        usleep(10000);
    }
    kill(holder, SIGKILL);
    attack_lost();
}
