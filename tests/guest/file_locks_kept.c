// A record lock (fcntl(2)) goes when its process closes a descriptor of the file, and at nothing else: mmap,
// truncate, an open by /proc/self/fd, an execve, another process that looks at /proc/PID/fd; with one thread
// and with several.
#include "guest.h"
#include <pthread.h>

static const char *who;
static int fd;

static void lock(void) {
    struct flock l = {.l_type = F_WRLCK};
    MUST(fcntl(fd, F_SETLK, &l));
}

static void look(const char *after) {
    fflush(stdout);
    reap("look", CHILD({
             struct flock l = {.l_type = F_WRLCK};
             MUST(fcntl(fd, F_GETLK, &l));
             say("%s: %s: %s", who, after, l.l_type == F_UNLCK ? "lost" : "held");
         }));
}

#define KEEPS(what, ...)                                                                                     \
    do {                                                                                                     \
        lock();                                                                                              \
        __VA_ARGS__;                                                                                         \
        look(what);                                                                                          \
    } while (0)

static void *idle(void *unused) {
    pause();
    return unused;
}

static void all(const char *as) {
    char path[64], text[64];
    who = as;
    fd = file_with("f", "0123456789");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    KEEPS("nothing");
    KEEPS("mmap", MUST(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED ? 0 : -1));
    KEEPS("truncate", MUST(truncate("f", 8)));
    KEEPS("stat", {
        struct stat st;
        MUST(stat("f", &st));
    });
    KEEPS("chmod", MUST(chmod("f", 0600)));
    KEEPS("readlink", MUST(readlink(path, text, sizeof text)));
    KEEPS("open", MUST(open("f", O_RDONLY)));
    KEEPS("open of /proc/self/fd", MUST(open(path, O_RDONLY)));
    KEEPS("O_CREAT", MUST(open("f", O_RDWR | O_CREAT, 0600)));
    KEEPS("another process", reap("other", CHILD({
                                      struct stat st;
                                      snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), fd);
                                      MUST(readlink(path, text, sizeof text));
                                      MUST(stat(path, &st));
                                      _exit(0);
                                  })));
    KEEPS("dup", MUST(dup(fd)));
    KEEPS("close", MUST(close(dup(fd))));
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc > 1) { /* executed: the lock is that of the program before */
        who = "executed";
        fd = atoi(argv[1]);
        MUST(pthread_create(&thread, NULL, idle, NULL));
        look("execve");
        MUST(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED ? 0 : -1);
        look("mmap");
        return 0;
    }
    all("one thread");
    MUST(pthread_create(&thread, NULL, idle, NULL));
    all("two threads");
    reap("child", CHILD({
             char number[16];
             fd = file_with("g", "0123456789");
             lock();
             snprintf(number, sizeof number, "%d", fd);
             execl("/proc/self/exe", argv[0], number, NULL);
         }));
    return 0;
}
