// Entries of /proc are read under limits that leave room for nothing: a file size of 0 (SIGXFSZ is not ours),
// no place for a queued signal (the process that is looked at goes on). setrlimit(2), proc(5).
#include "guest.h"

// Without a word.
#define EXPECT_QUIET(c) (wrong |= !(c))

static int out; // a pipe: no file can be written

static void look(const char *path) {
    char text[65536];
    int fd = open(path, O_RDONLY);
    long n = fd < 0 ? -1 : read(fd, text, sizeof text);
    n = sprintf(text, "%s: %s; ", path, n > 0 ? "read" : errno_name(errno));
    EXPECT_QUIET(write(out, text, n) == n);
    close(fd);
}

static void limit(int which) {
    struct rlimit none = {0, 0};
    EXPECT_QUIET(setrlimit(which, &none) == 0);
}

static void ended(const char *who, pid_t p) {
    int status = 0;
    waitpid(p, &status, 0);
    say("%s: signal %d, status %d", who, WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
}

int main(void) {
    char path[64], c, link[1024];
    int go[2], ready[2];
    size_t have = 0;
    EXPECT(pipe(ready) == 0);
    pid_t p = fork();
    if (!p) {
        out = ready[1];
        limit(RLIMIT_FSIZE);
        look("/proc/self/maps"), look("/proc/self/status"), look("/proc/self/stat");
        look("/proc/thread-self/smaps"), look("/proc/self/auxv"), look("/proc/self/environ");
        _exit(wrong);
    }
    close(ready[1]);
    for (long n; (n = read(ready[0], link + have, sizeof link - 1 - have)) > 0; have += n)
        ;
    link[have] = 0, say("%s", link);
    ended("file size", p);
    EXPECT(pipe(go) == 0 && pipe(ready) == 0);
    p = fork();
    if (!p) {
        limit(RLIMIT_SIGPENDING);
        close(go[1]);
        EXPECT_QUIET(write(ready[1], "r", 1) == 1 && read(go[0], &c, 1) == 0);
        _exit(wrong);
    }
    close(go[0]);
    EXPECT(read(ready[0], &c, 1) == 1);
    usleep(50000);
    sprintf(path, "/proc/%d/cwd", p);
    readlink(path, link, sizeof link);
    close(go[1]);
    ended("signals", p);
    return wrong;
}
