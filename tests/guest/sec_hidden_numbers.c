// krun: timeout=60
// A number of the monitor's below /proc/self/fd and fdinfo is like a number that is not open, for every call
// on a path, in every spelling, with one thread and with two.
#include "guest.h"
#include <dirent.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <sys/xattr.h>
static int watcher;
static long call(int k, int dir, const char *p) {
    static char buf[4096];
    struct stat st;
    struct statfs sf;
    struct statx sx;
    long r;
    char *no[] = {0};
    switch (k) {
    case 0:
        return readlinkat(dir, p, buf, sizeof buf);
    case 1:
        return fstatat(dir, p, &st, AT_SYMLINK_NOFOLLOW);
    case 2:
        return fstatat(dir, p, &st, 0);
    case 3:
        r = openat(dir, p, O_RDONLY | O_NONBLOCK);
        if (r >= 0)
            close(r);
        return r;
    case 4:
        r = openat(dir, p, O_PATH | O_NOFOLLOW);
        if (r >= 0)
            close(r);
        return r;
    case 5:
        r = openat(dir, p, O_PATH);
        if (r >= 0)
            close(r);
        return r;
    case 6:
        return faccessat(dir, p, F_OK, 0);
    case 7:
        return syscall(439, dir, p, F_OK, AT_SYMLINK_NOFOLLOW);
    case 8:
        return syscall(SYS_statx, dir, p, AT_SYMLINK_NOFOLLOW, 0xfff, &sx);
    case 9:
        return fchmodat(dir, p, 0600, 0);
    case 10:
        return fchownat(dir, p, -1, -1, AT_SYMLINK_NOFOLLOW);
    case 11:
        return unlinkat(dir, p, 0);
    case 12:
        return unlinkat(dir, p, AT_REMOVEDIR);
    case 13:
        return mkdirat(dir, p, 0700);
    case 14:
        return renameat(dir, p, AT_FDCWD, "/tmp/krun-hidden-x");
    case 15:
        return renameat(AT_FDCWD, "/tmp/krun-hidden-y", dir, p);
    case 16:
        return linkat(dir, p, AT_FDCWD, "/tmp/krun-hidden-z", 0);
    case 17:
        return linkat(dir, p, AT_FDCWD, "/tmp/krun-hidden-z", AT_SYMLINK_FOLLOW);
    case 18:
        return symlinkat("a", dir, p);
    case 19:
        return utimensat(dir, p, NULL, AT_SYMLINK_NOFOLLOW);
    case 20: {
        int h[40] = {128};
        int m;
        return syscall(SYS_name_to_handle_at, dir, p, h, &m, 0);
    }
    case 21:
        r = openat(dir, p, O_CREAT | O_EXCL | O_RDWR, 0600);
        if (r >= 0)
            close(r);
        return r;
    case 22:
        r = openat(dir, p, O_CREAT | O_RDWR, 0600);
        if (r >= 0)
            close(r);
        return r;
    case 23:
        r = openat(dir, p, O_RDONLY | O_NOFOLLOW);
        if (r >= 0)
            close(r);
        return r;
    case 24:
        return syscall(SYS_execveat, dir, p, no, no, 0);
    case 25:
        return mknodat(dir, p, S_IFIFO | 0600, 0);
    case 26:
        r = openat(dir, p, O_DIRECTORY);
        if (r >= 0)
            close(r);
        return r;
    case 27:
        return syscall(SYS_execveat, dir, p, no, no, AT_SYMLINK_NOFOLLOW);
    }
    if (dir != AT_FDCWD)
        return 0;
    switch (k) {
    case 30:
        return lgetxattr(p, "user.a", buf, 10);
    case 31:
        return getxattr(p, "user.a", buf, 10);
    case 32:
        return llistxattr(p, buf, 100);
    case 33:
        return inotify_add_watch(watcher, p, IN_OPEN);
    case 34:
        return inotify_add_watch(watcher, p, IN_OPEN | IN_DONT_FOLLOW);
    case 35:
        return statfs(p, &sf);
    case 36:
        return truncate(p, 0);
    case 39: {
        struct sockaddr_un u = {.sun_family = 1};
        strcpy(u.sun_path, p);
        int s = socket(1, 1, 0);
        r = connect(s, (void *)&u, sizeof u);
        int e = errno;
        close(s);
        errno = e;
        return r;
    }
    case 40:
        return lsetxattr(p, "user.a", "b", 1, 0);
    }
    return 0;
}

#define CALLS 41
#define FREE 900

static int differences;

static void compare(const char *form, const char *shown, int hidden, int relative) {
    static const char *const tails[] = {"", "/", "/x"};
    int dir = relative ? open(form, O_PATH | O_DIRECTORY) : AT_FDCWD;
    for (unsigned k = 0; k < CALLS; k++)
        for (unsigned i = 0; i < COUNT(tails); i++) {
            char a[300], b[300], front[200] = "";
            if (!relative)
                snprintf(front, sizeof front, "%s/", form);
            snprintf(a, sizeof a, "%s%d%s", front, hidden, tails[i]);
            snprintf(b, sizeof b, "%s%d%s", front, FREE, tails[i]);
            int ea = call((int)k, dir, a) < 0 ? errno : 0, eb = call((int)k, dir, b) < 0 ? errno : 0;
            if (ea != eb) {
                say("call %u, %s, tail '%s', relative %d: errno %d instead of %d", k, shown, tails[i],
                    relative, ea, eb);
                differences++;
            }
        }
    if (relative)
        close(dir);
}

static void listing(const char *form, const char *shown) {
    DIR *d = opendir(form);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (atoi(e->d_name) >= 64) {
            say("%s lists a number that this program never had", shown);
            differences++;
        }
    if (d)
        closedir(d);
}

// Numbers that dup2(2) refuses though they are below the limit: the monitor's. Natively there are none.
static int find_hidden(int *out, int max) {
    int n = 0;
    for (int fd = 64; fd < 5000 && n < max; fd++)
        if (fd != FREE && dup2(1, fd) == fd)
            close(fd);
        else if (fd != FREE)
            out[n++] = fd;
    return n;
}

static volatile int stop;
static void *idle(void *arg) {
    while (!stop)
        usleep(1000);
    return arg;
}

int main(void) {
    char task[64], info[64], by_pid[64];
    snprintf(task, sizeof task, "/proc/self/task/%d/fd", (int)getpid());
    snprintf(info, sizeof info, "/proc/self/task/%d/fdinfo", (int)getpid());
    snprintf(by_pid, sizeof by_pid, "/proc/%d/fd", (int)getpid());
    const char *const forms[] = {
        "/proc/self/fd", "/proc/thread-self/fd", task, by_pid, "/proc/self/fdinfo", info, "/dev/fd"};
    const char *const shown[] = {"self/fd",     "thread-self/fd", "task/fd", "PID/fd",
                                 "self/fdinfo", "task/fdinfo",    "/dev/fd"};
    int hidden[64] = {2000}, n;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 5000 ? limit.rlim_max : 5000;
    setrlimit(RLIMIT_NOFILE, &limit);
    watcher = inotify_init();
    close(open("/tmp/krun-hidden-y", O_CREAT | O_RDWR, 0600));
    n = find_hidden(hidden, 64);
    // The first ones are fixed numbers, the last ones those of the VM.
    int some[] = {hidden[0], hidden[n > 1 ? 1 : 0], hidden[n > 9 ? 9 : 0], hidden[n ? n - 1 : 0]};
    pthread_t thread;
    for (int threads = 1; threads < 3; threads++) {
        for (unsigned f = 0; f < COUNT(forms); f++) {
            listing(forms[f], shown[f]);
            for (unsigned i = 0; i < COUNT(some); i++)
                compare(forms[f], shown[f], some[i], 0), compare(forms[f], shown[f], some[i], 1);
        }
        if (threads == 1)
            pthread_create(&thread, NULL, idle, NULL);
    }
    stop = 1;
    pthread_join(thread, NULL);
    unlink("/tmp/krun-hidden-y");
    say("%d differences", differences);
    return 0;
}
