/* SPDX-License-Identifier: Apache-2.0 */
/* mount(2), the file-descriptor based mount calls (Linux 5.2 and 5.12), pivot_root(2). */
#include "host.h"

/* struct mount_attr of linux/mount.h, which cannot be included beside sys/mount.h on glibc 2.36. */
struct kr_mount_attr {
    uint64_t attr_set;
    uint64_t attr_clr;
    uint64_t propagation;
    uint64_t userns_fd;
};

int kr_mount(const char *source, const char *target, const char *fstype, unsigned long flags,
             const char *data) {
    return (int)KR_CALL(SYS_mount, source, target, fstype, flags, data);
}

int kr_umount2(const char *target, int flags) { return (int)KR_CALL(SYS_umount2, target, flags); }

int kr_pivot_root(const char *new_root, const char *put_old) {
    return (int)KR_CALL(SYS_pivot_root, new_root, put_old);
}

int kr_open_tree(int dirfd, const char *path, unsigned int flags) {
    return (int)KR_CALL(SYS_open_tree, dirfd, path, flags);
}

int kr_move_mount(int from_fd, const char *from_path, int to_fd, const char *to_path, unsigned int flags) {
    return (int)KR_CALL(SYS_move_mount, from_fd, from_path, to_fd, to_path, flags);
}

int kr_mount_setattr(int dirfd, const char *path, unsigned int flags, uint64_t set, uint64_t clear,
                     uint64_t propagation, int userns_fd) {
    struct kr_mount_attr attr = {
        .attr_set = set,
        .attr_clr = clear,
        .propagation = propagation,
        .userns_fd = userns_fd < 0 ? 0 : (uint64_t)userns_fd,
    };

    return (int)KR_CALL(SYS_mount_setattr, dirfd, path, flags, &attr, sizeof(attr));
}

int kr_fsopen(const char *fstype, unsigned int flags) { return (int)KR_CALL(SYS_fsopen, fstype, flags); }

int kr_fsconfig(int fd, unsigned int cmd, const char *key, const char *value, int aux) {
    return (int)KR_CALL(SYS_fsconfig, fd, cmd, key, value, aux);
}

int kr_fsmount(int fd, unsigned int flags, unsigned int attrs) {
    return (int)KR_CALL(SYS_fsmount, fd, flags, attrs);
}
