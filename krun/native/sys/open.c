/* SPDX-License-Identifier: Apache-2.0
 *
 * open, openat, openat2, creat, readlink: arguments and flags. view/procfs.c judges and opens. No state, no
 * locks.
 */
#include "memfile.h"
#include "path.h"
#include "table.h"
#include "../view/procfs.h"
#include "../process/above.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

#define LINK_ROOM 4096u
#define FASYNC_FLAG 020000u

#define OPEN_FLAGS                                                                                           \
    (O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_DSYNC | FASYNC_FLAG |     \
     O_DIRECT | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | __O_SYNC | O_PATH |         \
     __O_TMPFILE)
#define PATH_FLAGS (O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC)
#define RESOLVE_FLAGS                                                                                        \
    (RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT |     \
     RESOLVE_CACHED)

static long open_with(struct kr_task *t, int dirfd, u64 ptr, const struct open_how *how) {
    char *path;
    long n = kr_path_copy(ptr, &path);
    if (n < 0)
        return n;
    n = kr_open(t, dirfd, path, how);
    if (n == -EACCES)
        n = kr_memfile_open(t, dirfd, path, how);
    if (n >= 0 && t->local.holder)
        kr_file_path(t, path);
    kr_path_put(path);
    if (n >= 0)
        kr_listing_forget((u64)n, (u64)n);
    return n;
}

/* open(2) ignores three things that openat2(2) refuses: unknown flags, a mode without creation, flags beside
 * O_PATH. */
static long open_old(struct kr_task *t, int dirfd, u64 ptr, u32 flags, u32 mode) {
    struct open_how how = {.flags = (flags & OPEN_FLAGS) | O_LARGEFILE};
    if (flags & O_PATH)
        how.flags = flags & PATH_FLAGS;
    else if (flags & (O_CREAT | __O_TMPFILE))
        how.mode = mode & 07777;
    return open_with(t, dirfd, ptr, &how);
}

long sys_open(struct kr_task *t, const u64 a[6]) { return open_old(t, AT_FDCWD, a[0], (u32)a[1], (u32)a[2]); }

long sys_creat(struct kr_task *t, const u64 a[6]) {
    return open_old(t, AT_FDCWD, a[0], O_CREAT | O_WRONLY | O_TRUNC, (u32)a[1]);
}

long sys_openat(struct kr_task *t, const u64 a[6]) {
    return open_old(t, (int)a[0], a[1], (u32)a[2], (u32)a[3]);
}

long sys_openat2(struct kr_task *t, const u64 a[6]) {
    struct open_how how;
    u64 size = a[3];
    if (size < sizeof how)
        return -EINVAL;
    if (size > KR_PAGE)
        return -E2BIG;
    if (kr_copy_in(&how, a[2], sizeof how) < 0)
        return -EFAULT;
    for (u64 i = sizeof how; i < size; i++) { /* fields of a later kernel must be zero */
        u8 b;
        if (kr_copy_in(&b, a[2] + i, 1) < 0)
            return -EFAULT;
        if (b)
            return -E2BIG;
    }
    int creates = (how.flags & (O_CREAT | __O_TMPFILE)) != 0;
    if (how.flags & ~(u64)OPEN_FLAGS || how.resolve & ~(u64)RESOLVE_FLAGS ||
        (creates ? how.mode & ~07777ULL : how.mode) || (how.flags & O_PATH && how.flags & ~(u64)PATH_FLAGS) ||
        ((how.resolve & RESOLVE_BENEATH) && (how.resolve & RESOLVE_IN_ROOT)))
        return -EINVAL;
    if (!(how.flags & O_PATH))
        how.flags |= O_LARGEFILE;
    return open_with(t, (int)a[0], a[1], &how);
}

/* ---- Handles ---- */

struct handle { /* struct file_handle */
    u32 bytes;
    s32 type;
    u8 data[128]; /* MAX_HANDLE_SZ */
};

/* Opens the file of a handle for writing. The handle is decoded once, to an O_PATH descriptor, which is judged and opened again:
 * another thread can exchange the file of descriptor `mount` between two decodings. */
static long handle_for_writing(struct kr_task *t, u64 mount, const struct handle *h, u32 flags) {
    long fd = kr_call_intr(__NR_open_by_handle_at, mount, (u64)h, O_PATH | O_CLOEXEC, 0, 0, 0);
    if (fd >= 0 && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
        kr_fd_shut(fd);
        return -EEXIST;
    }
    return fd < 0 ? fd : kr_open_found(t, fd, (flags & OPEN_FLAGS) | O_LARGEFILE);
}

long sys_open_by_handle_at(struct kr_task *t, const u64 a[6]) {
    struct handle h;
    u64 ptr = KR_BAD_PTR; /* the kernel's answer: EPERM comes before EFAULT */
    u32 flags = (u32)a[2];
    long r;
    if (kr_copy_in(&h, a[1], offsetof(struct handle, data)) == 0 &&
        (h.bytes > sizeof h.data || kr_copy_in(h.data, a[1] + offsetof(struct handle, data), h.bytes) == 0))
        ptr = (u64)&h; /* a copy, which the payload cannot change; too long a one is EINVAL */
    /* O_TMPFILE makes a new file, and needs no judgement */
    if (ptr == KR_BAD_PTR || h.bytes > sizeof h.data || (flags & O_ACCMODE) == O_RDONLY ||
        flags & (O_PATH | __O_TMPFILE))
        r = kr_call_intr(__NR_open_by_handle_at, a[0], ptr, a[2], 0, 0, 0);
    else
        r = handle_for_writing(t, a[0], &h, flags);
    if (r >= 0)
        kr_listing_forget((u64)r, (u64)r);
    return r;
}

/* ---- Links ---- */

static long read_link(struct kr_task *t, int dirfd, u64 ptr, u64 buf, u64 len) {
    s32 size = (s32)len;
    if (size <= 0)
        return -EINVAL;
    char *path;
    long n = kr_path_copy(ptr, &path);
    if (n < 0)
        return n;
    char *out = kr_alloc_any(LINK_ROOM);
    n = out ? kr_readlink(t, dirfd, path, out, KR_MIN((size_t)size, LINK_ROOM)) : -ENOMEM;
    if (n > 0 && kr_copy_out(buf, out, (size_t)n) < 0)
        n = -EFAULT;
    kr_free(out, LINK_ROOM);
    kr_path_put(path);
    return n;
}

long sys_readlink(struct kr_task *t, const u64 a[6]) { return read_link(t, AT_FDCWD, a[0], a[1], a[2]); }
long sys_readlinkat(struct kr_task *t, const u64 a[6]) { return read_link(t, (int)a[0], a[1], a[2], a[3]); }
