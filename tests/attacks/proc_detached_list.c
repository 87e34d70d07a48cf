// A procfs that is not in the mount table of the process: of fsmount(2) or open_tree(2) without a place, of another mount
// namespace, or unmounted while it is in use. Its directories must not show more than those of /proc: map_files has the
// addresses of the monitor's mappings as names, fd and fdinfo the monitor's descriptors, task its threads.
#include "attack.h"
#include <sys/mount.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif

static int seen; // procfs outside of the table that could be reached

static void judge(const char *how, int dir, const char *name) {
    static char buf[65536];
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return;
    for (long n; (n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0;)
        for (long at = 0; at < n;) {
            unsigned short len;
            memcpy(&len, buf + at + 16, 2);
            const char *entry = buf + at + 19;
            unsigned long from, to;
            if (sscanf(entry, "%lx-%lx", &from, &to) == 2 && from >= ATTACK_WINDOW_END)
                attack_won("%s: %s has a mapping of the monitor: %s", how, name, entry);
            if (strstr(name, "fd") && *entry != '.' && fcntl(atoi(entry), F_GETFD) < 0 && errno == EBADF)
                attack_won("%s: %s has a descriptor of the monitor: %s", how, name, entry);
            at += len;
        }
    close(fd);
}

static void look(const char *how, int root, int own) {
    static const char *const names[] = {"map_files", "fd", "fdinfo", "task"};
    char name[64];
    int self = own ? root : openat(root, "self", O_PATH | O_DIRECTORY);
    if (self < 0)
        return;
    seen++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        judge(how, self, names[i]);
        snprintf(name, sizeof name, "../1/%s", names[i]);
        if (!own)
            judge(how, self, name);
    }
}

// The directory itself is the root of a mount without a place: no path has its name.
static void look_root(const char *how, const char *name) {
    int fd = (int)syscall(SYS_open_tree, AT_FDCWD, name, OPEN_TREE_CLONE);
    if (fd < 0)
        return;
    seen++;
    judge(how, fd, ".");
}

static void detached(void) {
    int fs = (int)syscall(SYS_fsopen, "proc", 0), root;
    if (fs >= 0 && syscall(SYS_fsconfig, fs, 6, NULL, NULL, 0) == 0 &&
        (root = (int)syscall(SYS_fsmount, fs, 0, 0)) >= 0)
        look("fsmount", root, 0);
    root = (int)syscall(SYS_open_tree, AT_FDCWD, "/proc", OPEN_TREE_CLONE);
    if (root >= 0)
        look("open_tree", root, 0);
    root = (int)syscall(SYS_open_tree, AT_FDCWD, "/proc/self", OPEN_TREE_CLONE);
    if (root >= 0)
        look("open_tree of self", root, 1);
    look_root("open_tree of map_files", "/proc/self/map_files");
    look_root("open_tree of fd", "/proc/self/fd");
}

static void unmounted(void) {
    mkdir("/tmp/p", 0777);
    if (mount("proc", "/tmp/p", "proc", 0, NULL) < 0)
        return;
    int root = open("/tmp/p", O_PATH | O_DIRECTORY);
    if (umount2("/tmp/p", MNT_DETACH) == 0 && root >= 0)
        look("umount2", root, 0);
}

// The /proc of a mount namespace that this process leaves.
static void left(void) {
    int root = open("/proc", O_PATH | O_DIRECTORY);
    if (unshare(CLONE_NEWNS) == 0)
        look("mount namespace that was left", root, 0);
}

static void all(void *user) {
    if (user && unshare(CLONE_NEWUSER) < 0)
        return;
    left();
    detached();
    unmounted();
    if (!seen)
        _exit(7);
}

int main(void) {
    int status = attack_child(all, NULL), mine = attack_child(all, "a user namespace");
    if (attack_child_won(status) || attack_child_won(mine))
        _exit(ATTACK_WON);
    if (WEXITSTATUS(status) == 7 && WEXITSTATUS(mine) == 7)
        attack_broken("no procfs outside of the table");
    attack_lost();
}
