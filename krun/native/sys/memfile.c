/* SPDX-License-Identifier: Apache-2.0
 *
 * The own /proc/PID/mem: reads and writes of the payload's memory by its addresses (proc_pid_mem(5)); the own pagemap and
 * clear_refs (pagemap.c).
 *
 * The kernel's files show the monitor's memory, too. So the payload gets an O_PATH descriptor of the entry, for which the
 * kernel answers EBADF to each call that reads or writes (open(2)). Behind that answer the monitor serves read, write, pread64,
 * pwrite64 and lseek, if the number is in the table of those that were opened. What it reads and writes in mem, the payload could reach
 * itself, after an mprotect(2) where a private mapping is read-only (FOLL_FORCE in the kernel).
 *
 * The kernel keeps no position and no mode for such a descriptor. So they belong to the number, which counts as long as it
 * leads to the same entry. A copy (dup(2)) and a child's are EBADF: the child's would be of the parent's memory.
 *
 * State: the table, under files_lock. Callers: sys/open.c after an EACCES, kr_perform after an EBADF.
 */
#include "memfile.h"
#include "pagemap.h"
#include "sys.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../lib/kr_linux.h"
#include "../machine/site.h"
#include "../view/found.h"
#include "../view/place.h"
#include <linux/fs.h>

struct file {
    struct kr_proc *proc; /* NULL: free */
    u32 fd, access;       /* access: O_ACCMODE of the open */
    enum kr_proc_entry entry;
    u64 ino, dev, at, used; /* used: the order of the opens */
};
static struct file files[8];
static struct kr_lock files_lock;
u32 kr_memfiles;

void kr_memfile_before_fork(void) { kr_lock(&files_lock); }
void kr_memfile_fork_parent(void) { kr_unlock(&files_lock); }
void kr_memfile_after_fork(void) {
    kr_lock_init(&files_lock);
    if (kr_memfiles) {
        memset(files, 0, sizeof files);
        kr_memfiles = 0;
    }
}

static u64 device(const struct statx *sx) { return (u64)sx->stx_dev_major << 32 | sx->stx_dev_minor; }

/* The entry of the table for fd of t's process, or NULL. Lock: files_lock. */
static struct file *find(const struct kr_task *t, u32 fd) {
    for (u32 i = 0; i < KR_COUNT(files); i++)
        if (files[i].proc == t->proc && files[i].fd == fd)
            return &files[i];
    return NULL;
}

static void enter(struct kr_task *t, u32 fd, u32 access, enum kr_proc_entry entry, const struct statx *sx) {
    static u64 clock;
    kr_lock(&files_lock);
    struct file *f = find(t, fd);
    for (u32 i = 0; !f && i < KR_COUNT(files); i++) /* the oldest goes where all are in use */
        if (!files[i].proc)
            f = &files[i];
    if (!f) {
        f = files;
        for (u32 i = 1; i < KR_COUNT(files); i++)
            if (files[i].used < f->used)
                f = &files[i];
    }
    *f = (struct file){t->proc, fd, access, entry, sx->stx_ino, device(sx), 0, ++clock};
    kr_unlock(&files_lock);
    __atomic_store_n(&kr_memfiles, 1, __ATOMIC_RELEASE);
}

/* ---- open ---- */

/* 0 if the payload may open the entry at slot, which has to be `entry`, else -errno. */
static long may_open(struct kr_task *t, int slot, enum kr_proc_entry entry, u64 flags, struct statx *sx) {
    struct kr_proc_name w;
    struct statfs sf;
    char *path = kr_alloc_any(KR_PATH_ROOM);
    if (!path)
        return -ENOMEM;
    int is = kr_stat_fd(slot, sx) == 0 && kr_on_proc(slot, sx) && kr_place_name(t, slot, sx, path, &w) == 0 &&
             w.entry == entry && kr_place_own(&w) && kr_rules_let(t, slot, &w, sx->stx_mode);
    kr_free(path, KR_PATH_ROOM);
    if (!is)
        return -EACCES;
    if ((flags & O_ACCMODE) != O_RDONLY && kr_sys2(__NR_fstatfs, slot, &sf) == 0 && sf.f_flags & ST_RDONLY)
        return -EROFS;
    return entry == KR_PE_MEM ? 0 : kr_pagemap_may(t, entry, flags);
}

long kr_memfile_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (asked->flags & O_NOFOLLOW),
                           .resolve = asked->resolve};
    const char *base = strrchr(path, '/');
    enum kr_proc_entry entry = kr_proc_entry_of(base ? base + 1 : path);
    struct statx sx;
    if ((entry != KR_PE_MEM && entry != KR_PE_PAGEMAP && entry != KR_PE_CLEAR_REFS) ||
        asked->flags & (O_PATH | O_DIRECTORY | __O_TMPFILE) ||
        (asked->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return -EACCES;
    long slot = kr_slot_put(t, (int)kr_open(t, dirfd, path, &how));
    if (slot < 0)
        return slot;
    long fd = may_open(t, (int)slot, entry, asked->flags, &sx);
    if (fd < 0) {
        kr_slot_free((int)slot);
        return fd;
    }
    fd = kr_found_hand_out(slot, asked->flags);
    if (fd >= 0)
        enter(t, (u32)fd, asked->flags & O_ACCMODE, entry, &sx);
    return fd;
}

/* ---- read and write ---- */

/* Writes n bytes, in one page, to a private mapping that is read-only for the payload. 0 or -errno. */
static long force(struct kr_mm *mm, u64 addr, const u8 *data, u64 n) {
    u64 page = KR_PAGE_DOWN(addr);
    kr_lock(&mm->lock);
    const struct kr_vma *v = kr_vma_find(mm, page);
    int may = v && v->start <= page && !(v->flags & (KR_VMA_SHARED | KR_VMA_VDSO)) && !(v->prot & PROT_WRITE);
    u32 prot = may ? v->prot : 0;
    kr_unlock(&mm->lock);
    if (!may || kr_mm_mprotect(mm, page, KR_PAGE, prot | PROT_READ | PROT_WRITE) < 0)
        return -EIO;
    long r = kr_copy_out(addr, data, n);
    kr_mm_mprotect(mm, page, KR_PAGE, prot);
    return r;
}

/* Copies up to a page's end between the payload's memory at `at` and its buffer. 0, -EFAULT (the buffer), -EIO. */
static long piece(struct kr_mm *mm, u64 at, u64 buf, u64 n, int writes) {
    u8 data[KR_PAGE];
    if (!kr_span_ok(at, n))
        return writes && kr_copy_in(data, buf, n) < 0 ? -EFAULT : -EIO;
    if (kr_copy_in(data, writes ? buf : at, n) < 0)
        return writes ? -EFAULT : -EIO;
    if (writes)
        return kr_copy_out(at, data, n) == 0 || force(mm, at, data, n) == 0 ? 0 : -EIO;
    kr_sites_original(mm, at, data, n);
    return kr_copy_out(buf, data, n);
}

/* mem_rw() in fs/proc/base.c. */
static long move(struct kr_mm *mm, u64 at, u64 buf, u64 size, int writes) {
    u64 done = 0;
    long r = 0;
    size = KR_MIN(size, KR_MAX_RW);
    while (done < size && r == 0) {
        u64 n = KR_MIN(size - done, KR_PAGE - ((at + done) & (KR_PAGE - 1)));
        r = piece(mm, at + done, buf + done, n, writes);
        done += r == 0 ? n : 0;
    }
    return r == -EFAULT || !done ? r : (long)done;
}

static long seek(struct file *f, u64 offset, u32 whence) {
    if (f->entry == KR_PE_CLEAR_REFS) /* noop_llseek(); no write moves it */
        return (long)f->at;
    if (whence > 1) /* SEEK_SET, SEEK_CUR */
        return -EINVAL;
    f->at = whence ? f->at + offset : offset;
    return (long)f->at;
}

long kr_memfile_call(struct kr_task *t, u64 nr, const u64 a[6]) {
    int moves = nr == __NR_read || nr == __NR_write, writes = nr == __NR_write || nr == __NR_pwrite64;
    struct statx sx;
    long r = -EBADF;
    if ((!moves && !writes && nr != __NR_pread64 && nr != __NR_lseek && nr != __NR_ioctl) ||
        kr_stat_fd((int)a[0], &sx) < 0)
        return r;
    kr_lock(&files_lock);
    struct file *f = find(t, (u32)a[0]), was;
    int is = f && f->ino == sx.stx_ino && f->dev == device(&sx);
    if (is && nr == __NR_ioctl)
        r = -ENOTTY;
    if (is && nr == __NR_lseek)
        r = seek(f, a[1], (u32)a[2]);
    if (is)
        was = *f;
    kr_unlock(&files_lock);
    if (!is || nr == __NR_lseek || nr == __NR_ioctl || was.access == (writes ? O_RDONLY : O_WRONLY))
        return r;
    u64 at = moves ? was.at : a[3];
    r = was.entry == KR_PE_MEM ? move(t->mm, at, a[1], a[2], writes)
                               : kr_pagemap_move(t, was.entry, at, a[1], a[2], writes);
    if (moves && r > 0 && was.entry != KR_PE_CLEAR_REFS) {
        kr_lock(&files_lock);
        f = find(t, (u32)a[0]);
        if (f && f->used == was.used)
            f->at = was.at + (u64)r;
        kr_unlock(&files_lock);
    }
    return r;
}
