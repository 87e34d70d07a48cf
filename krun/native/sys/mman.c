/* SPDX-License-Identifier: Apache-2.0
 *
 * mmap(2) and relatives: the arguments are checked here, machine/mm.c does the work. Calls on existing memory
 * (msync, mincore, mlock, mbind) go to the host by kr_host_forward(), which checks that the range lies in the
 * window.
 */
#include "sys.h"
#include "../lib/kr_linux.h"
#include "../machine/fdtab.h"
#include "../machine/hostmem.h"
#include "../machine/mm.h"

kr_sys_fn sys_mmap, sys_munmap, sys_mprotect, sys_pkey_mprotect, sys_mremap, sys_madvise, sys_brk, sys_msync,
    sys_mincore, sys_mlock, sys_mlock2, sys_munlock, sys_mlockall, sys_munlockall, sys_mbind, sys_mseal,
    sys_remap_file_pages;

/* Whether fd may be mapped: 1 if it is a socket, 0, -EBADF, or -ENODEV for an anonymous inode (a file without a type). A payload needs no mapping of
 * one. KVM's descriptors are such files, and the mapping of a vCPU is struct kvm_run, by which KVM and the monitor
 * communicate. If a KVM descriptor ever stood at a number of the payload, it still could not be mapped. */
static long may_map(int fd) {
    struct statx st;
    static const char empty[1] = "";
    long r = kr_sys5(__NR_statx, fd, empty, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st);
    if (r < 0)
        return r == -EBADF ? r : 0;
    return (st.stx_mode & S_IFMT) == S_IFSOCK ? 1 : st.stx_mode & S_IFMT ? 0 : -ENODEV;
}

/* Flags that the kernel declares unsigned long, in the 32 bits that mm.c has. Where the kernel refuses unknown flags
 * it refuses those of the upper half; a bit that no flag has stands for them. */
#define UNKNOWN_FLAG (1u << 23)
static u32 long_flags(u64 v) { return (u32)v | (v >> 32 ? UNKNOWN_FLAG : 0); }

struct mapping {
    struct kr_task *t;
    const u64 *a; /* arguments of mmap(2) */
};

/* *socket: whether fd is one. */
static long map_file(struct kr_task *t, const u64 a[6], int fd, int *socket) {
    long may = may_map(fd);
    *socket = may > 0;
    return may < 0 ? may : kr_mm_mmap(t->mm, a[0], a[1], (u32)a[2], long_flags(a[3]), fd, a[5]);
}

/* On a thread with a copy of the table. */
static long map_in_copy(void *arg) {
    const struct mapping *m = arg;
    int socket;
    return map_file(m->t, m->a, (int)m->a[4], &socket);
}

/* The checks of a file (here; noexec in kr_mm_mmap) and its mapping use a number that no other thread can
 * exchange. */
long sys_mmap(struct kr_task *t, const u64 a[6]) {
    if (a[3] & MAP_ANONYMOUS)
        return kr_mm_mmap(t->mm, a[0], a[1], (u32)a[2], long_flags(a[3]), (int)a[4], a[5]);
    if (a[5] & (KR_PAGE - 1)) /* before the descriptor, as in the kernel */
        return -EINVAL;
    int socket;
    if (!kr_files_shared(t))
        return map_file(t, a, (int)a[4], &socket);
    if (__atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_RECORD_LOCKS)
        return kr_private(t, map_in_copy, &(struct mapping){t, a});
    int fd = kr_slot_dup(t, a[4]);
    if (fd < 0)
        return fd;
    long r = map_file(t, a, fd, &socket);
    if (socket)
        kr_slot_free_slow(t, fd);
    else
        kr_slot_free(fd);
    return r;
}

long sys_munmap(struct kr_task *t, const u64 a[6]) { return kr_mm_munmap(t->mm, a[0], a[1]); }

long sys_mprotect(struct kr_task *t, const u64 a[6]) {
    return kr_mm_mprotect(t->mm, a[0], a[1], long_flags(a[2]));
}

long sys_pkey_mprotect(struct kr_task *t, const u64 a[6]) {
    return (s32)a[3] == -1 ? sys_mprotect(t, a) : -EINVAL;
}

long sys_mremap(struct kr_task *t, const u64 a[6]) {
    return kr_mm_mremap(t->mm, a[0], a[1], a[2], long_flags(a[3]), a[4]);
}

long sys_madvise(struct kr_task *t, const u64 a[6]) { return kr_mm_madvise(t->mm, a[0], a[1], (int)a[2]); }

long sys_mseal(struct kr_task *t, const u64 a[6]) { return a[2] ? -EINVAL : kr_mm_seal(t->mm, a[0], a[1]); }

long sys_remap_file_pages(struct kr_task *t, const u64 a[6]) {
    u64 addr = KR_PAGE_DOWN(a[0]), len = KR_PAGE_DOWN(a[1]);
    if (a[2] || addr + len <= addr || a[3] + len / KR_PAGE < a[3])
        return -EINVAL;
    return kr_mm_remap_file(t->mm, addr, len, a[3]);
}

long sys_brk(struct kr_task *t, const u64 a[6]) { return kr_mm_brk(t->mm, a[0]); }

/* -EINVAL before -ENOMEM, as in the kernel. */
static int is_unaligned(const u64 a[6]) { return (a[0] & (KR_PAGE - 1)) != 0; }

long sys_msync(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return is_unaligned(a) ? -EINVAL : kr_host_forward(__NR_msync, a);
}

long sys_mincore(struct kr_task *t, const u64 a[6]) {
    (void)t;
    if (is_unaligned(a))
        return -EINVAL;
    if (kr_span_ok(a[0], a[1]) && !kr_span_ok(a[2], KR_PAGE_UP(a[1]) / KR_PAGE))
        return -EFAULT;
    return kr_host_forward(__NR_mincore, a);
}

long sys_mlock(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_host_forward(__NR_mlock, a);
}

long sys_mlock2(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_host_forward(__NR_mlock2, a);
}

long sys_munlock(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_host_forward(__NR_munlock, a);
}

/* Locks or unlocks the payload's mappings one by one. The host's mlockall(2) would also populate the
 * monitor's large reservations. */
static long for_all(struct kr_task *t, int lock, u64 flags) {
    long r = 0;
    kr_lock(&t->mm->lock);
    for (u32 i = 0; i < t->mm->nvma && !r; i++) {
        const struct kr_vma *v = &t->mm->vma[i];
        if (!(v->prot & 7) ||
            (v->flags & KR_VMA_STACK)) /* the stack is mapped whole but only its top is used */
            continue;
        r = lock ? kr_host_mlock(v->start, v->end - v->start, (u32)flags)
                 : kr_host_munlock(v->start, v->end - v->start);
    }
    kr_unlock(&t->mm->lock);
    return r;
}

long sys_mlockall(struct kr_task *t, const u64 a[6]) {
    if (!a[0] || (a[0] & ~(u64)(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) || a[0] == MCL_ONFAULT)
        return -EINVAL;
    /* The right to lock anything at all, which the kernel looks at before the length. */
    long r = kr_host_may_lock();
    if (r < 0)
        return r;
    if (a[0] & MCL_CURRENT) {
        r = for_all(t, 1, a[0] & MCL_ONFAULT ? MLOCK_ONFAULT : 0);
        if (r)
            return r;
    }
    t->mm->lock_future = a[0] & MCL_FUTURE ? (a[0] & MCL_ONFAULT ? 2 : 1) : 0;
    return 0;
}

long sys_munlockall(struct kr_task *t, const u64 a[6]) {
    (void)a;
    t->mm->lock_future = 0;
    return for_all(t, 0, 0);
}

long sys_mbind(struct kr_task *t, const u64 a[6]) {
    (void)t;
    if (is_unaligned(a))
        return -EINVAL;
    if (a[4] > 1u << 20)
        return -EINVAL;
    if (!kr_span_ok(a[3], a[4] / 8 + 8))
        return -EFAULT;
    long r = kr_host_forward(__NR_mbind, a);
    return r == -ENOMEM && !kr_span_ok(a[0], a[1]) ? -EFAULT : r;
}
