/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that the process's last exit has opened: see sockets.h and guest/engine_file.inc. A server of files opens one, asks for its
 * size, sends it and closes it; only the open is an exit.
 *
 * The file is offered at the entry behind the open(2) or openat(2), and forgotten at the next exit, whatever it is for. So nothing
 * else of the process's has happened to the number meanwhile: the process has one thread, and shares its descriptors with
 * nobody. What fstat says was true at the last exit. sendfile and close are records, and happen at the next exit in their order.
 *
 *   content   is read when the record is carried out. If the file has become shorter meanwhile, the connection is reset
 *   close     does not fail: it is a regular file, opened for reading only, of a file system whose close does nothing there
 *
 * State: k->opened, offered, known; lock: sockets.h.
 */
#include "sockets.h"
#include "../lib/kr_linux.h"
#include "../machine/fdtab.h"
#include "../process/process.h"
#include <asm/statfs.h>
#include <linux/fcntl.h>
#include <linux/magic.h>
#include <linux/stat.h>

/* With other flags an open does more, or its descriptor does. */
#define PLAIN (O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_LARGEFILE | O_NOATIME)

struct stat_k { /* the kernel's */
    u64 dev, ino, nlink;
    u32 mode, uid, gid, pad;
    u64 rdev, size, rest[11];
};
_Static_assert(sizeof(struct stat_k) == sizeof(((struct kr_sock_file *)0)->stat), "guest/socketpage.h");

/* FUSE, NFS and others have work to do at a close, and may be told of it. */
static int closes_at_once(u32 fd) {
    struct statfs fs;
    if (kr_sys2(__NR_fstatfs, fd, &fs) < 0)
        return 0;
    switch ((u32)fs.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case (u32)BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case SQUASHFS_MAGIC:
    case (u32)EROFS_SUPER_MAGIC_V1:
        return 1;
    }
    return 0;
}

/* The timer of the queue may interrupt it: then it is made again. To stop the timer and to start it anew costs two changes of the
 * processor's timer. */
int kr_file_at_once(u32 nr, const u64 a[6]) {
    u32 flags = (u32)a[nr == __NR_open ? 1 : 2];
    return (nr == __NR_open || nr == __NR_openat) && flags & O_NONBLOCK && !(flags & ~(u32)PLAIN);
}

void kr_file_opened(struct kr_sockets *k, u32 fd, u32 flags) { k->opened = flags & ~(u32)PLAIN ? 0 : fd + 1; }

void kr_file_offer(struct kr_sockets *k) {
    struct kr_task *t = k->holder;
    struct kr_sock_file *f = &k->area->file;
    u32 fd = k->opened - 1;
    if (!k->opened)
        return;
    k->opened = k->known = 0;
    if (kr_files_shared(t) || __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_LENT ||
        !kr_sockets_allowed(t, KR_WAY_FILE))
        return;
    struct stat_k st;
    if (kr_sys2(__NR_fstat, fd, &st) < 0 || (st.mode & S_IFMT) != S_IFREG || !closes_at_once(fd))
        return;
    k->known = fd + 1;
    if (!kr_window_closed(&t->window))
        return;
    k->offered = fd + 1;
    k->area->closed = 0;
    f->fd = fd;
    f->size = st.size;
    memcpy(f->stat, &st, sizeof st);
    if (!++k->files)
        k->files = 1;
    f->gen = k->files;
}

void kr_file_forget(struct kr_sockets *k) {
    if (k->offered)
        k->offered = k->area->file.gen = 0;
}

const u8 *kr_file_bytes(struct kr_sockets *k, u64 offset, u32 len) {
    u32 got = 0;
    while (got < len) {
        long n = kr_sys4(__NR_pread64, k->offered - 1, k->bytes + got, len - got, offset + got);
        if (n <= 0 || n > (long)(len - got))
            return NULL;
        got += (u32)n;
    }
    return k->bytes;
}

void kr_file_close(struct kr_sockets *k, u32 gen) {
    if (!k->offered || gen != k->files)
        return;
    kr_fd_shut(k->offered - 1);
    k->known = 0;
    kr_file_forget(k);
}
