// The monitor's descriptors through links of the image that hide every part of "/proc/self/fd/N": each call
// that only tells something of what a path leads to. A number of which fstat(2) knows nothing must not exist
// for any of them.
#include "attack.h"
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

static char buf[4096];

struct call {
    const char *name;
    long (*make)(const char *path);
};

static long c_stat(const char *p) { return stat(p, (struct stat *)buf); }
static long c_statx(const char *p) { return syscall(SYS_statx, AT_FDCWD, p, 0, 0xfff, buf); }
static long c_newfstatat(const char *p) { return syscall(SYS_newfstatat, AT_FDCWD, p, buf, 0); }
static long c_statfs(const char *p) { return statfs(p, (struct statfs *)buf); }
static long c_access(const char *p) { return access(p, F_OK); }
static long c_faccessat2(const char *p) { return syscall(439, AT_FDCWD, p, F_OK, 0x200); }
static long c_listxattr(const char *p) { return listxattr(p, buf, sizeof buf); }
static long c_getxattr(const char *p) {
    return getxattr(p, "user.none", buf, 8) < 0 && errno == ENODATA ? 0 : -1;
}
static long c_listxattrat(const char *p) { return syscall(465, AT_FDCWD, p, 0, buf, sizeof buf); }
static long c_file_getattr(const char *p) { return syscall(468, AT_FDCWD, p, buf, 24, 0); }
static long c_open_path(const char *p) {
    int fd = open(p, O_PATH);
    return fd < 0 ? fd : close(fd);
}
static long c_chdir(const char *p) { return chdir(p); }
static long c_truncate(const char *p) { return truncate(p, 0); }
static long c_name_to_handle(const char *p) {
    *(unsigned *)buf = 128;
    return syscall(SYS_name_to_handle_at, AT_FDCWD, p, buf, buf + 512, 0x400);
}
static int watch = -1;
static long c_inotify(const char *p) { return inotify_add_watch(watch, p, IN_OPEN); }

static const struct call calls[] = {
    {"stat", c_stat},
    {"statx", c_statx},
    {"newfstatat", c_newfstatat},
    {"statfs", c_statfs},
    {"access", c_access},
    {"faccessat2", c_faccessat2},
    {"listxattr", c_listxattr},
    {"getxattr", c_getxattr},
    {"listxattrat", c_listxattrat},
    {"file_getattr", c_file_getattr},
    {"open", c_open_path},
    {"chdir", c_chdir},
    {"truncate", c_truncate},
    {"name_to_handle_at", c_name_to_handle},
    {"inotify_add_watch", c_inotify},
};

static void tries(int number, const char *path) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].make(path) >= 0)
            attack_won("%s(2) knows hidden descriptor %d through %s", calls[i].name, number, path);
}

int main(void) {
    char path[128], target[128];
    mkdir("/tmp/links", 0700);
    if (chdir("/tmp/links") < 0)
        attack_broken("a directory for links");
    watch = inotify_init1(IN_NONBLOCK);
    unlink("d"), unlink("t");
    if (symlink("/proc/self/fd", "d") < 0 || symlink("/proc/thread-self", "t") < 0)
        attack_broken("symlink");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int around = limit.rlim_cur > 4096 ? 4096 : (int)limit.rlim_cur;
    for (int i = 0; i < 4300 && !attack_over(); i++) { // the likely numbers first
        struct stat st;
        int fd = i < 220 ? around - 80 + i : i - 217;
        if (fstat(fd, &st) == 0 || errno != EBADF)
            continue;
        snprintf(path, sizeof path, "d/%d", fd);
        tries(fd, path);
        snprintf(path, sizeof path, "d/../fd/.//%d", fd);
        tries(fd, path);
        snprintf(target, sizeof target, "t/fd/%d", fd);
        unlink("l"), unlink("m");
        if (symlink(target, "l") == 0 && symlink("l", "m") == 0)
            tries(fd, "m");
        unlink("l");
        snprintf(target, sizeof target, "%d", fd);
        if (symlink(target, "l") == 0) { // the number in one link, its directory in the working directory
            if (chdir("d") == 0) {
                tries(fd, "/tmp/links/../links/./l");
                tries(fd, target);
            }
            if (chdir("/tmp/links") < 0)
                attack_broken("back");
        }
    }
    attack_lost();
}
