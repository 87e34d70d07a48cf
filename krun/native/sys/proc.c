/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes and threads: the arguments are checked here; process/clone.c, process/exec.c and process/task.c
 * do the work. */
#include "sys.h"
#include "../machine/mm.h"
#include "../process/bury.h"
#include "../process/process.h"
#include "../lib/kr_linux.h"
#include <asm/prctl.h>

kr_sys_fn sys_clone, sys_clone3, sys_fork, sys_vfork, sys_execve, sys_execveat, sys_exit, sys_exit_group,
    sys_arch_prctl, sys_set_tid_address;

long sys_clone(struct kr_task *t, const u64 a[6]) {
    u64 flags = a[0] & 0xffffffffULL;
    struct kr_clone_args ca = {.flags = flags & ~(u64)(CSIGNAL | CLONE_DETACHED),
                               /* Ignored there, refused by clone3(2). */
                               .exit_signal = flags & (CLONE_THREAD | CLONE_PARENT) ? 0 : flags & CSIGNAL,
                               .stack = a[1],
                               .parent_tid = a[2],
                               .child_tid = a[3],
                               .tls = a[4]};
    if (flags & CLONE_PIDFD) { /* the old call puts the descriptor where parent_tid points */
        if (flags & CLONE_PARENT_SETTID)
            return -EINVAL;
        ca.pidfd = a[2];
        ca.parent_tid = 0;
    }
    return kr_clone(t, &ca);
}

long sys_clone3(struct kr_task *t, const u64 a[6]) {
    struct kr_clone_args ca = {0};
    if (a[1] > KR_PAGE)
        return -E2BIG;
    if (a[1] < CLONE_ARGS_SIZE_VER0)
        return -EINVAL;
    if (kr_copy_in(&ca, a[0], KR_MIN(a[1], sizeof ca)) < 0)
        return -EFAULT;
    for (u64 i = sizeof ca; i < a[1]; i++) { /* fields of a newer kernel must be zero */
        u8 b;
        if (kr_copy_in(&b, a[0] + i, 1) < 0)
            return -EFAULT;
        if (b)
            return -E2BIG;
    }
    if ((ca.flags & (CSIGNAL | CLONE_DETACHED)) || (ca.exit_signal & ~(u64)CSIGNAL))
        return -EINVAL;
    if (!ca.stack != !ca.stack_size)
        return -EINVAL;
    return kr_clone(t, &ca);
}

long sys_fork(struct kr_task *t, const u64 a[6]) {
    (void)a;
    struct kr_clone_args ca = {.exit_signal = SIGCHLD};
    return kr_clone(t, &ca);
}

long sys_vfork(struct kr_task *t, const u64 a[6]) {
    (void)a;
    struct kr_clone_args ca = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
    return kr_clone(t, &ca);
}

static long exec(struct kr_task *t, int dirfd, u64 path_ptr, u64 argv, u64 envp, int flags) {
    char *path = kr_alloc(4096);
    if (!path)
        return -ENOMEM;
    long r = kr_copy_str(path, path_ptr, 4096);
    if (r >= 0)
        r = kr_execve(t, dirfd, path, argv, envp, flags);
    kr_free(path, 4096);
    return r;
}

long sys_execve(struct kr_task *t, const u64 a[6]) { return exec(t, AT_FDCWD, a[0], a[1], a[2], 0); }

long sys_execveat(struct kr_task *t, const u64 a[6]) {
    return exec(t, (int)a[0], a[1], a[2], a[3], (int)a[4]);
}

long sys_exit(struct kr_task *t, const u64 a[6]) { kr_task_exit(t, (int)a[0] & 0xff); }

long sys_exit_group(struct kr_task *t, const u64 a[6]) { kr_exit_group(t, (int)a[0] & 0xff); }

long sys_arch_prctl(struct kr_task *t, const u64 a[6]) {
    struct kvm_sregs *s = &t->run->s.regs.sregs;
    switch ((int)a[0]) {
    case ARCH_SET_FS:
    case ARCH_SET_GS:
        if (a[1] >= KR_WINDOW_END)
            return -EPERM;
        if ((int)a[0] == ARCH_SET_FS)
            s->fs.base = a[1];
        else
            s->gs.base = a[1];
        t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS;
        return 0;
    case ARCH_GET_FS:
        return kr_copy_out(a[1], &s->fs.base, 8);
    case ARCH_GET_GS:
        return kr_copy_out(a[1], &s->gs.base, 8);
    case ARCH_GET_CPUID: /* CPUID never faults */
        return 1;
    case ARCH_SET_CPUID:
        return -ENODEV;
    default:
        return -EINVAL;
    }
}

long sys_set_tid_address(struct kr_task *t, const u64 a[6]) { return kr_life_set_tid_address(t, a[0]); }
