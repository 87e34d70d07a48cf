/* SPDX-License-Identifier: Apache-2.0
 *
 * getdents(2), getdents64(2): listings of /proc leave out the monitor's descriptors and threads
 * (view/procfs.h).
 *
 * State: the positions of listings of other processes' descriptors, under cursor_lock.
 */
#include "path.h"
#include "../lib/kr_linux.h"
#include "../view/ask.h"
#include "../machine/fdtab.h"
#include "../view/procfs.h"

#define DIRENT_ROOM 32768u

struct dirent_head { /* common to linux_dirent and linux_dirent64 */
    u64 ino, off;
    u16 reclen;
} __attribute__((packed));

struct open_fds { /* the open descriptors of another process, ascending */
    u32 *fds, n;
    size_t size;
};

static int is_open(const struct open_fds *o, u64 fd) {
    u32 lo = 0, hi = o->n;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (o->fds[mid] < fd)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < o->n && o->fds[lo] == fd;
}

/* Drops the entries of buf[n] that a listing of this kind leaves out. name_at: offset of the name in an
 * entry. The number of bytes left. */
static long filter_entries(struct kr_task *t, u8 *buf, long n, size_t name_at, int kind, u32 pid,
                           const struct open_fds *other) {
    long kept = 0;
    for (long at = 0; at < n;) {
        struct dirent_head h;
        memcpy(&h, buf + at, sizeof h);
        const char *name = (const char *)buf + at + name_at, *end;
        u64 number = kr_strtou(name, &end);
        int numeric = end != name && !*end;
        int drop = kind == KR_DIR_EMPTY       ? name[0] != '.'
                   : kind == KR_DIR_FDS       ? numeric && !kr_fd_listed(number)
                   : kind == KR_DIR_FDS_OTHER ? numeric && !is_open(other, number)
                                              : numeric && kr_thread_hidden(t, pid, number);
        if (!drop) {
            memmove(buf + kept, buf + at, h.reclen);
            kept += h.reclen;
        }
        at += h.reclen;
    }
    return kept;
}

/* Positions of the listings that the monitor makes itself: of fd or fdinfo of another process, opened O_PATH
 * (view/procfs.c), because the kernel refuses getdents64(2) for the directory. The kernel keeps no position for such a
 * descriptor, so a position belongs to its number, and is forgotten when the number gets another file. When all are in use,
 * the oldest is dropped and its listing begins again. */
static struct {
    int fd;
    u32 pid, next; /* the least number not listed yet */
    u64 used;
} cursors[8];
static struct kr_lock cursor_lock;
static u32 begun; /* whether a position was ever taken; atomic */

void kr_listing_before_fork(void) { kr_lock(&cursor_lock); }
void kr_listing_after_fork(void) { kr_unlock(&cursor_lock); }

void kr_listing_forget(u64 first, u64 last) {
    if (!__atomic_load_n(&begun, __ATOMIC_RELAXED))
        return;
    kr_lock(&cursor_lock);
    for (u32 k = 0; k < KR_COUNT(cursors); k++)
        if ((u32)cursors[k].fd >= (u32)first && (u32)cursors[k].fd <= (u32)last)
            cursors[k].used = 0;
    kr_unlock(&cursor_lock);
}

static long emulate(long nr, int fd, u32 pid, const struct open_fds *o, u8 *buf, u32 room) {
    static u64 clock;
    u32 c = 0, i = 0, n = 0;
    if (nr != __NR_getdents64)
        return -EACCES;
    __atomic_store_n(&begun, 1, __ATOMIC_RELAXED);
    kr_lock(&cursor_lock);
    for (u32 k = 0; k < KR_COUNT(cursors); k++) {
        if (cursors[k].used && cursors[k].fd == fd && cursors[k].pid == pid) {
            c = k;
            break;
        }
        if (cursors[k].used < cursors[c].used)
            c = k;
    }
    if (!cursors[c].used || cursors[c].fd != fd || cursors[c].pid != pid)
        cursors[c].fd = fd, cursors[c].pid = pid, cursors[c].next = 0;
    cursors[c].used = ++clock;
    while (i < o->n && o->fds[i] < cursors[c].next)
        i++;
    for (; i < o->n && n + 32 <= room; i++, n += 32) {
        struct dirent_head h = {.ino = (u64)pid << 20 | o->fds[i], .off = o->fds[i] + 3, .reclen = 32};
        memset(buf + n, 0, 32);
        memcpy(buf + n, &h, sizeof h);
        buf[n + 18] = DT_UNKNOWN;
        kr_snprintf((char *)buf + n + 19, 13, "%u", o->fds[i]);
        cursors[c].next = o->fds[i] + 1;
    }
    if (!n)
        cursors[c].used = 0; /* the end of the directory: the next call begins a new listing */
    kr_unlock(&cursor_lock);
    return n;
}

/* Lists the directory fd, which no other thread can exchange. asked: its number as the payload knows it. */
static long list_of(struct kr_task *t, long nr, int fd, int asked, const u64 a[6], size_t name_at) {
    u32 pid = 0;
    struct open_fds other = {NULL, 0, 0};
    int kind = kr_dir_kind(t, fd, &pid);
    if (kind == KR_DIR_PLAIN)
        return kr_call_intr(nr, (u64)fd, a[1], a[2], 0, 0, 0);
    if (kind == KR_DIR_REFUSED)
        return -EACCES;
    if (kind == KR_DIR_FDS_OTHER) {
        long r = kr_ask_fds(t, pid, KR_PE_FD, &other.fds, &other.n, &other.size);
        if (r < 0)
            return r == -ESRCH ? -ENOENT : r;
    }
    u32 room = KR_MIN((u32)a[2], DIRENT_ROOM);
    u8 *buf = kr_alloc(DIRENT_ROOM);
    long n = -ENOMEM;
    while (buf) { /* until an entry is left, or the end */
        n = kr_call_intr(nr, (u64)fd, (u64)buf, room, 0, 0, 0);
        if (n == -EBADF && kind == KR_DIR_FDS_OTHER) {
            n = emulate(nr, asked, pid, &other, buf, room);
            break;
        }
        if (n <= 0)
            break;
        n = filter_entries(t, buf, n, name_at, kind, pid, &other);
        if (n)
            break;
    }
    if (n > 0 && kr_copy_out(a[1], buf, (size_t)n) < 0)
        n = -EFAULT;
    kr_free(buf, buf ? DIRENT_ROOM : 0);
    kr_free(other.fds, other.fds ? other.size : 0);
    return n;
}

/* The directory is judged and listed in a slot: another thread could put map_files, whose names are addresses of the
 * monitor, under the number of a directory that has passed. */
static long list(struct kr_task *t, long nr, const u64 a[6], size_t name_at) {
    if (!kr_files_shared(t))
        return list_of(t, nr, (int)a[0], (int)a[0], a, name_at);
    int slot = kr_slot_dup(t, a[0]);
    if (slot < 0)
        return slot;
    long n = list_of(t, nr, slot, (int)a[0], a, name_at);
    kr_slot_free(slot);
    return n;
}

long sys_getdents(struct kr_task *t, const u64 a[6]) { return list(t, __NR_getdents, a, 18); }
long sys_getdents64(struct kr_task *t, const u64 a[6]) { return list(t, __NR_getdents64, a, 19); }
