// Every call that takes a path, through descriptor numbers that are not open: no number answers otherwise
// than the rest: proc_pid_fd(5). krun: timeout=60
#include "guest.h"
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <sys/socket.h>
#include <sys/xattr.h>
#include <utime.h>
static char buf[512];
static struct stat st;
static int watcher;
static const char *p;
struct how {
    uint64_t flags, mode, resolve;
} how_open;
struct xargs {
    uint64_t value;
    uint32_t size, flags;
} xargs = {0, 0, 0};
struct mattr {
    uint64_t set, clr, prop, ns;
} mattr = {1, 0, 0, 0};
#define sc(nr, ...) syscall(nr, __VA_ARGS__)
#define AT AT_FDCWD
// clang-format off
#define CALLS                                                                                                \
    X(open(p, O_RDONLY))                                                                                     \
    X(open(p, O_RDWR | O_CREAT, 0600))                                                                       \
    X(open(p, O_PATH))                                                                                       \
    X(sc(437, AT, p, &how_open, 24))                                                                         \
    X(creat(p, 0600)) X(stat(p, &st)) X(sc(SYS_statx, AT, p, 0, 0xfff, buf)) X(access(p, F_OK)) X(           \
        sc(439, AT, p, F_OK, 0)) X(chdir(p)) X(chmod(p, 0777)) X(sc(452, AT, p, 0777, 0)) X(chown(p, 0, 0))  \
        X(fchownat(AT, p, 0, 0, 0)) X(truncate(p, 0)) X(utime(p, NULL)) X(utimensat(AT, p, NULL, 0)) X(      \
            execl(p, "x", NULL)) X(sc(SYS_execveat, AT, p, NULL, NULL, 0))                                   \
            X(statfs(p, (struct statfs *)buf)) X(setxattr(p, "user.krun", "v", 1, 0)) X(                     \
                getxattr(p, "user.krun", buf, 100)) X(listxattr(p, buf, 100)) X(removexattr(p, "user.krun")) \
                X(inotify_add_watch(watcher, p, IN_ALL_EVENTS))                                              \
                    X(linkat(AT, p, AT, "made", AT_SYMLINK_FOLLOW)) X(                                       \
                        name_to_handle_at(AT, p, (struct file_handle *)buf, (int *)(buf + 256),              \
                                          AT_SYMLINK_FOLLOW)) X(chroot(p))                                   \
                        X(umount2(p, MNT_DETACH)) X(mount(p, "dir", NULL, MS_BIND, NULL)) X(                 \
                            mount(p, "dir", NULL, MS_MOVE, NULL)) X(mount("none", p, "tmpfs", 0, NULL))      \
                            X(mount(NULL, p, NULL, MS_REMOUNT | MS_RDONLY, NULL)) X(                         \
                                mount("dir", p, NULL, MS_BIND, NULL)) X(sc(428, AT, p, 0))                   \
                                X(sc(428, AT, p, 1)) X(sc(429, AT, p, AT, "dir", 1)) X(                      \
                                    sc(429, AT, "dir", AT, p, 0)) X(sc(433, AT, p, 0))                       \
                                    X(sc(442, AT, p, 0, &mattr, 32))                                         \
                                        X(sc(463, AT, p, 0, "user.krun", &xargs, 16)) X(                     \
                                            sc(464, AT, p, 0, "user.krun", &xargs, 16))                      \
                                            X(sc(465, AT, p, 0, buf, 100)) X(sc(466, AT, p, 0, "user.krun")) \
                                                X(sc(468, AT, p, buf, 24, 0)) X(sc(469, AT, p, buf, 24, 0))  \
                                                    X(sc(SYS_acct, p)) X(sc(SYS_swapon, p, 0))               \
                                                        X(sc(SYS_pivot_root, p, "dir"))                      \
                                                            X(sc(SYS_quotactl, 0x80000700, p, 0, buf))
// through a directory
#define BELOW                                                                                                \
    X(open(p, O_RDONLY))                                                                                     \
    X(mkdir(p, 0755))                                                                                        \
    X(mknod(p, S_IFIFO | 0600, 0))                                                                           \
    X(symlink("x", p))                                                                                       \
    X(unlink(p)) X(rmdir(p)) X(rename("file", p)) X(rename(p, "to")) X(link("file", p)) X(link(p, "to"))     \
        X(renameat2(AT, p, AT, "to", 1)) X(mkdirat(AT, p, 0755)) X(mknodat(AT, p, S_IFIFO | 0600, 0))        \
            X(symlinkat("x", AT, p)) X(unlinkat(AT, p, 0)) X(linkat(AT, p, AT, "to", 0)) X(lstat(p, &st))    \
                X(lchown(p, 0, 0)) X(lsetxattr(p, "user.krun", "v", 1, 0))                                   \
                    X(lgetxattr(p, "user.krun", buf, 100)) X(llistxattr(p, buf, 100))                        \
                        X(lremovexattr(p, "user.krun")) X(readlink(p, buf, 100))                             \
                            X(statfs(p, (struct statfs *)buf)) X(access(p, F_OK))                            \
                                X(getxattr(p, "user.krun", buf, 100)) X(setxattr(p, "user.krun", "v", 1, 0)) \
                                    X(inotify_add_watch(watcher, p, IN_ALL_EVENTS))                          \
                                        X(sc(429, AT, p, AT, "none/none", 0))                                \
                                            X(sc(SYS_pivot_root, p, "none/none"))                            \
                                                X(linkat(AT, p, AT, "none/none", AT_SYMLINK_FOLLOW))
// clang-format on
static const char *const names[] = {
#define X(call) #call,
    CALLS BELOW
#undef X
};
enum { N = COUNT(names) };
static long answers[N][140];
static void note(int i, long r) { answers[i][r < 0 ? (errno < 139 ? errno : 138) : 139]++; }
static void at(const char *path) {
    int i = 0;
    p = path;
#define X(call) errno = 0, note(i++, (long)(call));
    CALLS
#undef X
}
static void below(const char *path) {
    int i = 0;
    p = path;
#define X(call) i++;
    CALLS
#undef X
#define X(call) errno = 0, note(i++, (long)(call));
    BELOW
#undef X
}
static void number(int n) {
    static const char *const forms[] = {"/proc/self/fd/%d", "/proc/thread-self/fd/%d", "/dev/fd/%d",
                                        "/proc/%d/fd/%d", "link"};
    char path[128];
    if (fcntl(n, F_GETFD) >= 0)
        return;
    for (size_t f = 0; f < COUNT(forms); f++) {
        if (f == 3)
            snprintf(path, sizeof path, forms[f], (int)getpid(), n);
        else
            snprintf(path, sizeof path, forms[f], n);
        if (f == 4) { // forms whose text says nothing: only what acts on what it finds
            char to[64];
            snprintf(to, sizeof to, "/proc/self/fd/%d", n);
            unlink("link"), MUST(symlink(to, "link"));
            p = "link";
            errno = 0;
            long r = truncate(p, 0) & setxattr(p, "user.krun", "v", 1, 0) &
                     linkat(AT, p, AT, "made", AT_SYMLINK_FOLLOW) & mount(p, "dir", NULL, MS_BIND, NULL) &
                     sc(429, AT, p, AT, "dir", 0x21) & sc(433, AT, p, 0) & sc(442, AT, p, 0, &mattr, 32) &
                     sc(428, AT, p, 1) & chmod(p, 0777) & chdir(p);
            if (r != -1)
                say("through a link: number %d answers", n), wrong = 1;
            continue;
        }
        at(path);
        if (f < 2) {
            strcat(path, "/x");
            below(path);
        }
    }
}
int main(int argc, char **argv) {
    // Should a number answer after all, the mounts are not the host's.
    if (unshare(CLONE_NEWNS) == 0)
        MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(mkdir("dir", 0755)), close(file_with("file", "x"));
    watcher = MUST(inotify_init());
    struct rlimit lim;
    getrlimit(RLIMIT_NOFILE, &lim);
    int soft = lim.rlim_cur > 4096 ? 4096 : (int)lim.rlim_cur;
    for (int n = 5; n < 12; n++)
        number(n);
    for (int n = soft - 66; n < soft + 80; n++)
        number(n);
    for (int i = 0; i < N; i++) {
        char text[200] = "";
        int kinds = 0;
        for (int e = 0; e < 140; e++)
            if (answers[i][e])
                kinds++, strcat(text, " "), strcat(text, e == 139 ? "ok" : errno_name(e));
        say("%s:%s", names[i], kinds > 4 ? " many" : text);
    }
    return wrong;
}
