/* SPDX-License-Identifier: Apache-2.0 */
/* openat2(2), nodes, what file system a descriptor lies on, memory files and their seals. */
#include "host.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

int kr_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct open_how how;

    memset(&how, 0, sizeof(how));
    how.flags = flags;
    how.mode = mode;
    how.resolve = resolve;
    return (int)KR_CALL(SYS_openat2, dirfd, path, &how, sizeof(how));
}

/* faccessat2(2) of what `fd` is open on (O_PATH, too), with the effective ids (Linux 5.8). */
int kr_faccess(int fd, int mode) {
    return (int)KR_CALL(SYS_faccessat2, fd, "", mode, AT_EMPTY_PATH | AT_EACCESS);
}

int kr_mknodat(int dirfd, const char *name, unsigned int mode, unsigned int major, unsigned int minor) {
    return (int)KR_CALL(SYS_mknodat, dirfd, name, mode, makedev(major, minor));
}

/* Writes the magic number of the file system below `fd` (statfs(2)) into *magic. */
int kr_fstype(int fd, uint64_t *magic) {
    struct statfs st;

    if (fstatfs(fd, &st) < 0)
        return -errno;
    *magic = (uint64_t)st.f_type;
    return 0;
}

/* Writes the number of the mount that `fd` (O_PATH, too) lies on, as mountinfo has it, into *number (statx(2), Linux 5.8). */
int kr_mount_id(int fd, uint64_t *number) {
    struct statx st;

    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) < 0)
        return -errno;
    if (!(st.stx_mask & STATX_MNT_ID))
        return -ENOSYS;
    *number = st.stx_mnt_id;
    return 0;
}

int kr_memfd_create(const char *name, unsigned int flags) {
    return (int)KR_CALL(SYS_memfd_create, name, flags);
}

int kr_seal(int fd, unsigned int seals) { return (int)KR_CALL(SYS_fcntl, fd, F_ADD_SEALS, seals); }

/* Copies `from_fd` from its position to the end into `to_fd`. */
int kr_copy_file(int from_fd, int to_fd) {
    for (;;) {
        long r = KR_CALL(SYS_sendfile, to_fd, from_fd, NULL, (size_t)1 << 30);

        if (r <= 0)
            return (int)r;
    }
}
