// A file system built and attached by descriptors inside of a user namespace: fsopen(2), fsmount(2),
// move_mount(2), fspick(2).
#include "guest.h"
#include <sys/mount.h>
int main(int argc, char **argv) {
    char map[32];
    int gid = getgid();
    snprintf(map, sizeof map, "0 %d 1", getuid());
    if (TRY(unshare(CLONE_NEWUSER | CLONE_NEWNS)) < 0)
        return 0;
    int uids = (int)MUST(open("/proc/self/uid_map", O_WRONLY));
    TRY(write(uids, map, strlen(map)));
    TRY(write((int)MUST(open("/proc/self/setgroups", O_WRONLY)), "deny", 4));
    snprintf(map, sizeof map, "0 %d 1", gid);
    TRY(write((int)MUST(open("/proc/self/gid_map", O_WRONLY)), map, strlen(map)));
    MUST(mkdir("at", 0755)), MUST(mkdir("copy", 0755));
    long fs = syscall(SYS_fsopen, "tmpfs", 1);
    if (fs < 0)
        return say("fsopen: %s", errno_name(errno)), 0;
    SHOW(syscall(SYS_fsopen, "nofs", 0)), SHOW(syscall(SYS_fsopen, "tmpfs", 8)),
        SHOW(syscall(SYS_fsopen, (char *)8, 0));
    SHOW(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", "64k", 0)),
        SHOW(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "nothing", "1", 0)),
        SHOW(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", (char *)8, 0)),
        SHOW(syscall(SYS_fsconfig, fs, 99, NULL, NULL, 0));
    SHOW(syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
    long m = syscall(SYS_fsmount, fs, 1, 0);
    EXPECT(m > 0);
    SHOW(syscall(SYS_move_mount, m, "", AT_FDCWD, "at", 4)),
        SHOW(syscall(SYS_move_mount, m, "", AT_FDCWD, "none", 4));
    int fd = (int)MUST(open("at/f", O_RDWR | O_CREAT, 0644));
    char page[PAGE] = "";
    long wrote = 0;
    for (long n; (n = write(fd, page, PAGE)) > 0;)
        wrote += n;
    say("%ld bytes, then %s", wrote, errno_name(errno));
    long pick = syscall(SYS_fspick, AT_FDCWD, "at", 0);
    EXPECT(pick > 0), SHOW(syscall(SYS_fsconfig, pick, FSCONFIG_SET_STRING, "size", "128k", 0)),
        SHOW(syscall(SYS_fsconfig, pick, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0)),
        SHOW(write(fd, page, PAGE));
    long tree = syscall(SYS_open_tree, AT_FDCWD, "at", 1);
    EXPECT(tree > 0), SHOW(syscall(SYS_move_mount, tree, "", AT_FDCWD, "copy", 4)),
        SHOW(access("copy/f", R_OK));
    struct {
        uint64_t set, clear, propagation, userns;
    } attr = {1, 0, 0, 0}; /* MOUNT_ATTR_RDONLY */
    SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "copy", 0, &attr, sizeof attr)),
        SHOW(open("copy/g", O_CREAT | O_WRONLY, 0600)), EXPECT(open("at/g", O_CREAT | O_WRONLY, 0600) > 0),
        SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "copy", 0, &attr, 8)),
        SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "copy", 0, (void *)8, 32));
    SHOW(umount2("copy", MNT_DETACH)), SHOW(umount2("at", MNT_DETACH)), SHOW(umount2("at", 0));
    return wrong;
}
