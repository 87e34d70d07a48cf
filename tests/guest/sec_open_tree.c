// open_tree(2) without OPEN_TREE_CLONE is an open with O_PATH that anybody may do: it reaches what open(2)
// reaches, and nothing of the monitor's through /proc/self/fd. Nor do other calls on paths: chmod(2),
// chown(2), utimensat(2), truncate(2).
#include "guest.h"
int main(int argc, char **argv) {
    int found = 0, changed = 0;
    for (int fd = 300; fd < 4400; fd++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int got = syscall(428 /* open_tree */, AT_FDCWD, path, 0);
        if (got >= 0)
            found++, close(got);
        snprintf(path, sizeof path, "/proc/self/fd/%d/sys/kernel/ostype", fd);
        got = syscall(428, AT_FDCWD, path, 0);
        if (got >= 0)
            found++, close(got);
    }
    say("found %d", found);
    for (int fd = 300; fd < 4400; fd++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        changed += chmod(path, 0600) == 0;
        changed += chown(path, 0, 0) == 0;
        changed += utimensat(AT_FDCWD, path, NULL, 0) == 0;
        changed += truncate(path, 0) == 0 || errno != ENOENT;
    }
    say("changed %d", changed);
    char name[] = "/tmp/treeXXXXXX";
    int fd = mkstemp(name), tree = syscall(428, AT_FDCWD, name, O_CLOEXEC);
    struct stat a, b;
    SHOW(fstat(fd, &a));
    SHOW(fstat(tree, &b));
    say("same %d, cloexec %d, flags %x", a.st_ino == b.st_ino, fcntl(tree, F_GETFD),
        fcntl(tree, F_GETFL) & O_PATH);
    SHOW(read(tree, name, 1));
    int again = syscall(428, tree, "", 0x1000 /* AT_EMPTY_PATH */);
    say("again %d", again - tree);
    unlink(name);
    SHOW((int)syscall(428, AT_FDCWD, name, 0));
    SHOW((int)syscall(428, AT_FDCWD, "/", 0x80000));
    SHOW((int)syscall(428, AT_FDCWD, (char *)0x6a0000000000, 0));
    return 0;
}
