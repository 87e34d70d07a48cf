// Whether a range is mapped in the monitor must not show in an errno, also where a link leads to /proc/self/map_files:
// if the table of descriptors is full or nearly so, and if openat2(2) with O_CREAT stays below a directory while threads share
// the table.
#include "attack.h"
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/resource.h>

#define MAPPED 0x5a0000000000UL

static char folder[] = "/tmp/map-XXXXXX", name[64], below[80];

static void *idle(void *unused) {
    pause();
    return unused;
}

static int fill(int *fds, int room) {
    int n = 0;
    while (n < room && (fds[n] = dup(1)) >= 0)
        n++;
    return n;
}

// The errno of one way to the range, 0 for success. free: how many numbers stay free.
static int way(int w, unsigned long range, int free) {
    static int fds[1024];
    char target[96];
    struct stat st;
    long r;
    int n = 0, top = open("/", O_PATH), error;
    snprintf(target, sizeof target, "/proc/self/map_files/%lx-%lx", range, range + 4096);
    unlink(name);
    if (symlink(target, name) < 0)
        attack_broken("symlink");
    if (w)
        for (n = fill(fds, 1024); free; free--)
            close(fds[--n]);
    if (w == 0) {
        struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = RESOLVE_IN_ROOT};
        r = syscall(SYS_openat2, top, name + 1, &how, sizeof how);
    } else {
        r = w == 1   ? stat(name, &st)
            : w == 2 ? access(name, F_OK)
            : w == 3 ? mkdir(below, 0700)
            : w == 4 ? open(name, O_RDONLY)
            : w == 5 ? open(name, O_PATH)
                     : truncate(name, 0);
    }
    error = r < 0 ? errno : 0;
    while (n)
        close(fds[--n]);
    close(top);
    return error;
}

int main(void) {
    char said[400] = "";
    int seen = 0;
    struct rlimit limit = {256, 256};
    setrlimit(RLIMIT_NOFILE, &limit);
    if (!mkdtemp(folder))
        attack_broken("mkdtemp");
    snprintf(name, sizeof name, "%s/file", folder);
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    ftruncate(fd, 4096);
    if (mmap((void *)MAPPED, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        attack_broken("mmap");
    (void)*(volatile char *)MAPPED;
    close(fd);
    snprintf(name, sizeof name, "%s/link", folder);
    snprintf(below, sizeof below, "%s/x", name);
    for (int threads = 0; threads < 2; threads++) {
        pthread_t thread;
        for (int i = 0; i < 7 * 4; i++) {
            int w = i / 4, free = i % 4, mapped = way(w, MAPPED, free), other = way(w, 0x123000, free);
            if (mapped != other) {
                size_t n = strlen(said);
                snprintf(said + n, sizeof said - n, " way %d, %d free, threads %d: %d, not %d;", w, free,
                         threads, mapped, other);
                seen = 1;
            }
        }
        if (!threads)
            pthread_create(&thread, NULL, idle, NULL);
    }
    if (seen)
        attack_won("errno tells what is mapped:%s", said);
    attack_lost();
}
