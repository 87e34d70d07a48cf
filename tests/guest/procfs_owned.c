// Entries of /proc/self that Linux gives to the process's user, written by one that is not root:
// user_namespaces(7), proc(5). krun: host
#include "guest.h"
#include <sys/prctl.h>

static long put(const char *path, int flags, const char *text) {
    int fd = open(path, O_WRONLY | flags, 0666);
    if (fd < 0)
        return -1;
    long r = write(fd, text, strlen(text));
    int e = errno;
    say("%s: number %d", path, fd); // the lowest one
    close(fd);
    errno = e;
    return r;
}
static void show(const char *path) {
    char text[256] = "";
    int fd = open(path, O_RDONLY);
    long n = read(fd, text, sizeof text - 1);
    close(fd);
    for (long i = 0; i < n; i++)
        if (text[i] == '\n')
            text[i] = ';';
    say("%s: %s", path, text);
}

static void common(void) {
    TRY(put("/proc/self/comm", 0, "other")), show("/proc/self/comm");
    TRY(put("/proc/thread-self/comm", O_CREAT | O_TRUNC, "third")), show("/proc/self/comm");
    TRY(put("/proc/self/oom_score_adj", O_CLOEXEC, "700")), show("/proc/self/oom_score_adj");
    TRY(put("/proc/self/coredump_filter", 0, "0x11")), show("/proc/self/coredump_filter");
    TRY(put("/proc/self/autogroup", 0, "x"));
    TRY(put("/proc/self/cmdline", 0, "x")), TRY(put("/proc/1/comm", 0, "x"));
    SHOW(prctl(PR_GET_DUMPABLE));
}
static void maps(void) {
    MUST(chdir("/"));
    char path[64];
    int dir = (int)MUST(open("/proc/self", O_PATH | O_DIRECTORY));
    snprintf(path, sizeof path, "/proc/self/task/%d/gid_map", (int)getpid());
    TRY(put("/proc/self/uid_map", 0, "0 1000 1")); /* before there is a namespace */
    MUST(unshare(CLONE_NEWUSER));
    TRY(put("/proc/self/gid_map", 0, "0 1000 1")); /* setgroups(2) is not denied yet */
    TRY(put("/proc/self/setgroups", 0, "deny"));
    TRY(put("/proc/self/uid_map", 0, "0 0 1")), TRY(put("/proc/self/uid_map", 0, "0 1000 2"));
    int fd = (int)MUST(openat(dir, "uid_map", O_RDWR));
    TRY(write(fd, "0 1000 1", 8)), TRY(write(fd, "0 1000 1", 8)), close(fd);
    fd = open(path, O_WRONLY);
    TRY(fd), TRY(write(fd, "5 1000 1", 8)), close(fd), close(dir);
    show("/proc/self/uid_map"), show("/proc/self/gid_map"), show("/proc/self/setgroups");
    say("%d %d %d %d", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid());
    reap("a child", CHILD({ say("%d", (int)getuid()), TRY(chroot("/")); }));
    execl("/proc/self/exe", "x", "executed", NULL);
}
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "executed")) {
        say("executed: %d %d", (int)getuid(), (int)getgid()), TRY(chroot("/")), SHOW(prctl(PR_GET_DUMPABLE));
        return 0;
    }
    (void)argv;
    reap("undumpable", CHILD({
             MUST(setresgid(1000, 1000, 1000)), MUST(setresuid(1000, 1000, 1000));
             common(), TRY(unshare(CLONE_NEWUSER)), TRY(put("/proc/self/uid_map", 0, "0 1000 1"));
         }));
    reap("dumpable", CHILD({
             MUST(setresgid(1000, 1000, 1000)), MUST(setresuid(1000, 1000, 1000));
             MUST(prctl(PR_SET_DUMPABLE, 1)), common(), maps();
         }));
    return wrong;
}
