/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that the process's last exit has opened: see sockets.h and guest/engine_file.inc. A server of files opens one, asks for its
 * size, sends it and closes it; only the open is an exit, and that of the same file again is none.
 *
 * The file is offered at the entry behind the open(2) or openat(2), and forgotten at the next exit, whatever it is for; and offered anew
 * if that exit is no call, or one that reads the file. So nothing else of the process's has happened to the number meanwhile: the process
 * has one thread, and shares its descriptors with nobody. What fstat says was true at the last exit. sendfile and close are records, and happen at the next exit in their order.
 *
 *   content   is read when the record is carried out. If the file has become shorter meanwhile, the connection is reset
 *   close     does not fail: it is a regular file, opened for reading only, of a file system whose close does nothing there
 *   open      of the same path in the same directory, with the same flags, once it is closed: at the last exit it would have given this file
 *             again, at this number, which was the lowest free one. Each record opens the file once more, so those who watch it
 *             see each open and close in their order. Between them the object (O_PATH) keeps the number until the thread's call
 *   times     sendfile may change the time of the last access. Where it does not (may_touch), fstat is an answer behind sendfile, too
 *
 * State: k->file; lock: sockets.h.
 */
#include "sockets.h"
#include "../filter/seccomp.h"
#include "../lib/kr_linux.h"
#include "../machine/fdtab.h"
#include "../process/process.h"
#include "../view/procfs.h"
#include <asm/statfs.h>
#include <linux/fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <linux/time.h>

/* With other flags an open does more, or its descriptor does. */
#define PLAIN (O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_LARGEFILE | O_NOATIME)

#define INTERRUPTIONS 100 /* by signals */
#define DAY 86400u        /* s */
#define MOMENT 60u        /* s: longer than a record waits */
/* statfs(2) */
#define ST_NOATIME 1024u
#define ST_RELATIME 4096u

struct stat_k { /* the kernel's */
    u64 dev, ino, nlink;
    u32 mode, uid, gid, pad;
    u64 rdev, size,
        rest[11]; /* from index 2 on: times of the last access, change of the content, change of the file */
};
_Static_assert(sizeof(struct stat_k) == sizeof(((struct kr_sock_file *)0)->stat), "guest/socketpage.h");

/* FUSE, NFS and others have work to do at a close, and may be told of it. *mount: the flags of the mount. */
static int closes_at_once(u32 fd, u64 *mount) {
    struct statfs fs;
    if (kr_sys2(__NR_fstatfs, fd, &fs) < 0)
        return 0;
    *mount = (u64)fs.f_flags;
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

void kr_file_opened(struct kr_sockets *k, u32 fd, u32 nr, const u64 a[6]) {
    u32 old = nr == __NR_open, flags = (u32)a[old ? 1 : 2];
    k->file.opened = flags & ~(u32)PLAIN ? 0 : fd + 1;
    k->file.nr = nr;
    k->file.dirfd = old ? (u32)AT_FDCWD : (u32)a[0];
    k->file.flags = flags;
}

void kr_file_path(struct kr_task *t, const char *path) {
    struct kr_sockets *k = kr_sockets_of(t);
    size_t n = strlen(path) + 1;
    if (!k || t != k->holder)
        return;
    kr_lock(&k->lock);
    if (n == k->file.path_size && !memcmp(k->file.path, path, n))
        t->local.named_own = 1; /* such an open could have been completed */
    k->file.path_size = n <= KR_SOCK_PATH ? (u32)n : 0;
    memcpy(k->file.path, path, k->file.path_size);
    kr_unlock(&k->lock);
}

void kr_file_call(struct kr_sockets *k, u32 nr, const u64 a[6]) {
    u32 fd = nr == __NR_sendfile ? (u32)a[1] : (u32)a[0];
    if (k->file.kept - 1 != fd || (nr != __NR_sendfile && nr != __NR_pread64 && nr != __NR_read))
        k->file.kept = 0;
}

/* Whether to send the file may change what fstat says of it. Not where the mount has no times of access. With relatime
 * (relatime_need_update() in the kernel) the kernel goes by the file's times, and by whether the last access is a day old. So if the file was
 * sent when they were the same, and they have not changed, they do not change now. */
static int may_touch(struct kr_opened *f, const struct stat_k *st, u64 mount) {
    struct kr_file_times now = {.flags = mount, .dev = st->dev, .ino = st->ino}, was = f->times;
    s64 clock[2] = {0, 0};
    memcpy(now.t, st->rest + 2, sizeof now.t);
    kr_sys2(__NR_clock_gettime, CLOCK_REALTIME, clock);
    now.now = (u64)clock[0];
    f->times = now;
    if (f->flags & O_NOATIME || mount & (ST_NOATIME | ST_RDONLY))
        return 0;
    int same = was.sent && was.flags == now.flags && was.dev == now.dev && was.ino == now.ino &&
               !memcmp(was.t, now.t, sizeof now.t);
    u64 old = now.t[0] + DAY;
    return !(same && mount & ST_RELATIME && (now.now + MOMENT < old || was.now >= old));
}

void kr_file_offer(struct kr_sockets *k) {
    struct kr_task *t = k->holder;
    struct kr_opened *o = &k->file;
    struct kr_sock_file *f = &k->area->file;
    u32 fd = (o->opened ? o->opened : o->kept) - 1;
    if (fd == ~0u)
        return;
    o->reopens = o->opened && o->path_size &&
                 !(o->flags & O_NOFOLLOW) && /* its descriptor would not have the flag */
                 kr_seccomp_allows(t, o->nr);
    o->opened = o->kept = o->known = 0;
    if (kr_files_shared(t) || __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_LENT ||
        !kr_sockets_allowed(t, KR_WAY_FILE))
        return;
    struct stat_k st;
    u64 mount;
    if (kr_sys2(__NR_fstat, fd, &st) < 0 || (st.mode & S_IFMT) != S_IFREG || !closes_at_once(fd, &mount))
        return;
    o->known = fd + 1;
    if (!kr_window_closed(&t->window))
        return;
    o->offered = fd + 1;
    o->closed = k->area->closed = 0;
    o->refused = o->stands = 0;
    f->fd = fd;
    f->size = st.size;
    memcpy(f->stat, &st, sizeof st);
    f->steady = !may_touch(o, &st, mount);
    f->dirfd = o->dirfd;
    f->flags = o->flags;
    memcpy(f->path, o->path, o->path_size);
    f->path_size = o->reopens ? o->path_size : 0;
    if (!++o->files)
        o->files = 1;
    f->gen = o->files;
}

void kr_file_forget(struct kr_sockets *k) {
    struct kr_opened *o = &k->file;
    if (!o->offered)
        return;
    u32 fd = o->offered - 1;
    if (o->again >= 0) {
        kr_fd_dup_onto((u64)o->again, fd, o->flags & O_CLOEXEC);
        kr_fd_shut(o->again);
        o->again = -1;
    } else if (o->closed) {
        kr_fd_shut(fd);
    }
    o->known = o->closed ? 0 : fd + 1;
    o->kept = o->refused ? 0 : o->known;
    o->offered = k->area->file.gen = 0;
}

const u8 *kr_file_bytes(struct kr_sockets *k, u64 offset, u32 len) {
    struct kr_opened *o = &k->file;
    u32 got = 0, fd = o->again >= 0 ? (u32)o->again : o->offered - 1;
    if (o->refused)
        return NULL;
    while (got < len) {
        long n = kr_sys4(__NR_pread64, fd, k->bytes + got, len - got, offset + got);
        if (n <= 0 || n > (long)(len - got))
            return NULL;
        got += (u32)n;
    }
    o->times.sent = 1;
    return k->bytes;
}

void kr_file_close(struct kr_sockets *k, u32 gen) {
    struct kr_opened *o = &k->file;
    if (!o->offered || o->closed || gen != o->files)
        return;
    kr_fd_shut(o->again);
    o->again = -1;
    o->closed = 1;
}

static long open_link(u32 fd, u64 flags) {
    char link[64];
    int dir = kr_proc_self_fd(link, sizeof link, (int)fd);
    struct open_how how = {.flags = flags};
    long r = -EINTR;
    for (int i = 0; r == -EINTR && i < INTERRUPTIONS; i++)
        r = kr_sys4(__NR_openat2, (s64)dir, link, &how, sizeof how);
    return r;
}

void kr_file_open(struct kr_sockets *k, u32 gen) {
    struct kr_opened *o = &k->file;
    u32 fd = o->offered - 1;
    if (!o->offered || !o->closed || gen != o->files || !o->reopens)
        return;
    o->closed = 0;
    if (!o->stands) { /* the first close happens now */
        long object = open_link(fd, O_PATH | O_CLOEXEC);
        if (object < 0 || kr_fd_dup_onto((u64)object, fd, O_CLOEXEC) < 0) {
            kr_fd_shut(
                object); /* there is no second number: the first descriptor stays, and stands for all */
            return;
        }
        kr_fd_shut(object);
        o->stands = 1;
    }
    long again = open_link(fd, o->flags | O_LARGEFILE); /* as the first one: F_GETFL shows them */
    o->again = again < 0 ? -1 : (s32)again;
    o->refused = again < 0;
}
