// The size of /proc/PID/fd is the number of open descriptors (Linux 6.2 and later; before: 0), by every way
// of stat(2), in a process with one thread, with several, and in another process.
#include "guest.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int counted; // whether the kernel counts
static int open_now(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void is(const char *way, long r, long size, int expected) {
    if (r < 0)
        say("%s: errno %d", way, errno);
    else if (counted)
        say("%s: %ld too many", way, size - expected);
    else
        say("%s: %s", way, size ? "a size" : "no size");
}

static void by_path(const char *what, int dir, const char *path, int flags, int expected) {
    struct stat st;
    struct statx sx;
    char way[96];
    snprintf(way, sizeof way, "%s: fstatat(%s, %x)", what, path, flags);
    long r = syscall(SYS_newfstatat, dir, path, &st, flags);
    is(way, r, st.st_size, expected);
    snprintf(way, sizeof way, "%s: statx(%s, %x)", what, path, flags);
    r = syscall(SYS_statx, dir, path, flags, STATX_BASIC_STATS, &sx);
    is(way, r, (long)sx.stx_size, expected);
    r = syscall(SYS_statx, dir, path, flags, 0, &sx);
    is(way, r, (long)sx.stx_size, expected);
}

static void all(const char *what) {
    struct stat st;
    char path[64], way[96];
    int n = open_now();
    long r = syscall(SYS_stat, "/proc/self/fd", &st);
    snprintf(way, sizeof way, "%s: stat", what);
    is(way, r, st.st_size, n);
    r = syscall(SYS_lstat, "/proc/self/fd", &st);
    is(way, r, st.st_size, n);
    by_path(what, AT_FDCWD, "/proc/self/fd", 0, n);
    by_path(what, AT_FDCWD, "/proc/self/fd", AT_SYMLINK_NOFOLLOW, n);
    by_path(what, AT_FDCWD, "/proc/self/fd/", AT_SYMLINK_NOFOLLOW, n);
    by_path(what, AT_FDCWD, "/proc/thread-self/fd", 0, n);
    EXPECT(chdir("/proc/self") == 0);
    by_path(what, AT_FDCWD, "fd", 0, n);
    by_path(what, AT_FDCWD, "fd", AT_SYMLINK_NOFOLLOW, n);
    EXPECT(chdir("/proc/self/fd") == 0);
    by_path(what, AT_FDCWD, ".", 0, n);
    by_path(what, AT_FDCWD, ".", AT_SYMLINK_NOFOLLOW, n);
    by_path(what, AT_FDCWD, "", AT_EMPTY_PATH, n);
    r = syscall(SYS_lstat, ".", &st);
    is(way, r, st.st_size, n);
    EXPECT(chdir("/") == 0);
    int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), link = open("/proc/self/fd", O_PATH);
    n += 2;
    for (int i = 0; i < 2; i++) {
        int which = i ? link : fd;
        r = syscall(SYS_fstat, which, &st);
        snprintf(way, sizeof way, "%s: fstat %d", what, i);
        is(way, r, st.st_size, n);
        by_path(what, which, "", AT_EMPTY_PATH, n);
        by_path(what, which, ".", 0, n);
        snprintf(path, sizeof path, "/proc/self/fd/%d", which);
        by_path(i ? "a link to O_PATH" : "a link", AT_FDCWD, path, 0, n);
    }
    close(fd);
    close(link);
}

static pthread_barrier_t all_there;
static void *sleeper(void *arg) {
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&all_there);
    return arg;
}

int main(void) {
    struct stat st;

    EXPECT(stat("/proc/self/fd", &st) == 0);
    counted = st.st_size != 0;
    all("alone");
    EXPECT(stat("/proc/self/fdinfo", &st) == 0);
    say("fdinfo: %ld", (long)st.st_size);
    EXPECT(stat("/proc/self/task", &st) == 0);
    say("task: %ld", (long)st.st_size);
    EXPECT(fstat(-1, &st) < 0 && errno == EBADF);
    EXPECT(syscall(SYS_fstat, 0, (void *)8) < 0 && errno == EFAULT);
    pthread_t threads[5];
    pthread_barrier_init(&all_there, NULL, 6);
    for (int i = 0; i < 5; i++)
        EXPECT(pthread_create(&threads[i], NULL, sleeper, NULL) == 0);
    pthread_barrier_wait(&all_there);
    all("threads");
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    all("after them");
    int to_us[2], to_child[2];
    EXPECT(pipe(to_us) == 0 && pipe(to_child) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 7; i++)
            dup(0);
        int n = open_now();
        if (write(to_us[1], &n, sizeof n) < 0)
            _exit(1);
        char c;
        read(to_child[0], &c, 1);
        _exit(0);
    }
    int n;
    char path[64];
    EXPECT(read(to_us[0], &n, sizeof n) == sizeof n);
    snprintf(path, sizeof path, "/proc/%d/fd", child);
    EXPECT(stat(path, &st) == 0);
    is("another process", 0, st.st_size, n);
    EXPECT(write(to_child[1], "x", 1) == 1);
    waitpid(child, NULL, 0);
    return wrong;
}
