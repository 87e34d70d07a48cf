/* SPDX-License-Identifier: Apache-2.0
 *
 * Single calls that need a look at their arguments: personality, sysfs, fanotify_init, unshare, setns, mount,
 * fsconfig, move_pages, pkey_mprotect. No state.
 */
#include "misc.h"
#include "nested.h"
#include "../vmm/mm.h"
#include "../vmm/process.h"
#include "../vmm/procfs.h"
#include <linux/fanotify.h>
#include <linux/personality.h>
#include <linux/sched.h>

long sys_personality(struct kr_task *t, const u64 a[6]) {
    (void)t;
    u32 p = (u32)a[0];
    /* READ_IMPLIES_EXEC would have to change every mapping; of the base personalities, PER_LINUX32 only
     * changes the machine that uname names, the others the kernel's answers in ways the loader does not
     * follow. */
    u32 base = p & PER_MASK;
    if (p != 0xffffffff && ((base != PER_LINUX && base != PER_LINUX32) || (p & READ_IMPLIES_EXEC)))
        return -EINVAL;
    return kr_forward(__NR_personality, a);
}

/* The other two arguments are numbers or pointers, depending on the first. */
long sys_sysfs(struct kr_task *t, const u64 a[6]) {
    (void)t;
    switch ((u32)a[0]) {
    case 1: /* number of a file system, by its name */
        return kr_call_intr(__NR_sysfs, 1, kr_guest_ptr(a[1], 1), 0, 0, 0, 0);
    case 2: /* name of a file system, by its number */
        return kr_call_intr(__NR_sysfs, 2, (u32)a[1], kr_guest_ptr(a[2], 1), 0, 0, 0);
    }
    return kr_call_intr(__NR_sysfs, (u32)a[0], 0, 0, 0, 0, 0);
}

/* Flags of a group that reports what happened to which file, without descriptors and without asking. */
#define FAN_NOTIFY_FLAGS (FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORTS)
#define FAN_REPORTS (0x200 /* FID */ | 0x400 /* DIR_FID */ | 0x800 /* NAME */ | 0x1000 /* TARGET_FID */)

long sys_fanotify_init(struct kr_task *t, const u64 a[6]) {
    (void)t;
    if (((u32)a[0] & ~(u32)FAN_NOTIFY_FLAGS) || !(a[0] & FAN_REPORTS))
        return -EPERM;
    return kr_forward(__NR_fanotify_init, a);
}

long sys_unshare(struct kr_task *t, const u64 a[6]) {
    /* vCPUs and the other hidden descriptors serve all threads: one table. With a single thread there is
     * nothing to unshare. */
    if ((a[0] & CLONE_FILES) && kr_files_shared(t))
        return -EINVAL;
    long r = kr_forward(__NR_unshare, a);
    return r == -EINVAL ? kr_call_alone(t, __NR_unshare, a) : r;
}

long sys_setns(struct kr_task *t, const u64 a[6]) {
    long r = kr_forward(__NR_setns, a);
    return r == -EINVAL || r == -EUSERS ? kr_call_alone(t, __NR_setns, a) : r;
}

/* ---- mounts ---- */

#define TYPE_MAX 64

/* Up to a page of mount data, as far as it is readable (copy_mount_options() in the kernel). 0 or -EFAULT. */
static long data_in(u8 *page, u64 ptr) {
    u64 first = KR_PAGE - (ptr & (KR_PAGE - 1));
    if (kr_copy_in(page, ptr, first) < 0)
        return -EFAULT;
    if (first < KR_PAGE && kr_copy_in(page + first, ptr + first, KR_PAGE - first) < 0)
        memset(page + first, 0, KR_PAGE - first);
    return 0;
}

long sys_mount(struct kr_task *t, const u64 a[6]) {
    (void)t;
    char type[TYPE_MAX];
    if (!a[2] || !a[4])
        return kr_forward(__NR_mount, a);
    long n = kr_copy_str(type, a[2], sizeof type);
    if (n < 0)
        return n == -ENAMETOOLONG ? -ENODEV : n;
    u64 data = a[4];
    u8 *page = NULL;
    if (!strncmp(type, "nfs",
                 3)) { /* nfs4's binary data holds pointers; text begins with a printable character */
        page = kr_alloc(KR_PAGE);
        if (!page)
            return -ENOMEM;
        long r = data_in(page, a[4]) < 0 ? -EFAULT : page[0] && page[0] < ' ' ? -EINVAL : 0;
        if (r < 0) {
            kr_free(page, KR_PAGE);
            return r;
        }
        data = (u64)page;
    }
    long r = kr_call_intr(__NR_mount, a[0], a[1], (u64)type, a[3], data, 0);
    if (page)
        kr_free(page, KR_PAGE);
    return r;
}

#define FSCONFIG_SET_FD_K 5

long sys_fsconfig(struct kr_task *t, const u64 a[6]) {
    (void)t;
    u64 aux = a[4];
    /* SET_FD, SET_PATH, SET_PATH_EMPTY: aux is a descriptor (or AT_FDCWD). For SET_BINARY it is a size, at
     * most 1 MiB. */
    if ((u32)a[1] >= 3 && (u32)a[1] <= FSCONFIG_SET_FD_K)
        aux = (u32)kr_guest_fd(aux);
    return kr_call_intr(__NR_fsconfig, a[0], a[1], a[2], a[3], aux, 0);
}

/* ---- memory ---- */

#define MOVE_MAX (1u << 17)

long sys_move_pages(struct kr_task *t, const u64 a[6]) {
    (void)t;
    u32 pid = (u32)a[0];
    u64 n = a[1];
    long other = pid ? kr_own_thread(pid) : 0;
    if (other)
        return other;
    if (!n)
        return kr_forward(__NR_move_pages, a);
    if (n > MOVE_MAX)
        return -E2BIG;
    u64 *pages = kr_alloc(n * sizeof *pages);
    if (!pages)
        return -ENOMEM;
    long r = -EFAULT;
    if (kr_copy_in(pages, a[2], n * sizeof *pages) == 0) {
        for (u64 i = 0; i < n; i++)
            pages[i] = kr_guest_ptr(pages[i], 1);
        r = kr_call_intr(__NR_move_pages, a[0], n, (u64)pages, a[3], a[4], a[5]);
    }
    kr_free(pages, n * sizeof *pages);
    return r;
}

long sys_pkey_mprotect(struct kr_task *t, const u64 a[6]) {
    return (s32)a[3] == -1 ? kr_mm_mprotect(t->mm, a[0], a[1], (u32)a[2]) : -EINVAL;
}
