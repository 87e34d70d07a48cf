/* SPDX-License-Identifier: Apache-2.0
 *
 * Host calls that Linux serves only to a process of one thread (unshare(2) and setns(2) of a user namespace,
 * setns of a mount namespace). KVM's worker (the recovery of huge pages) is a thread of the process and shares
 * its fs_struct as long as the VM lives: for the time of the call the VM goes.
 *
 * A pid namespace for the children (CLONE_NEWPID) comes last, when the new VM has its worker: the kernel makes
 * no thread in a process whose children go elsewhere (copy_process()), and no VM runs without its worker. For
 * the same reason the VM of such a process cannot be made again: task->newpid. No other state.
 */
#include "../machine/cpu.h"
#include "../machine/fdtab.h"
#include "hostsig.h"
#include "../machine/mm.h"
#include "process.h"
#include <asm/signal.h>
#include <linux/sched.h>

#define TRIES 20

int kr_children_elsewhere(void) {
    char own[32], children[32];
    long n = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, "thread-self/ns/pid", own, sizeof own);
    long m = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, "thread-self/ns/pid_for_children", children,
                     sizeof children);
    return n <= 0 || n != m || memcmp(own, children, (size_t)n) != 0; /* -ENOENT: no process in it yet */
}

/* A run that ends before it begins: KVM starts its worker at the first one. 0 or -errno. */
static long start_worker(struct kr_task *t) {
    long r = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        t->run->immediate_exit = 1;
        r = kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
        t->run->immediate_exit = 0;
        if (r != -EAGAIN)
            break;
        s64 pause[2] = {0, 1000000}; /* no room for a thread */
        kr_sys2(__NR_nanosleep, pause, 0);
    }
    return r == -EINTR ? 0 : r;
}

static void drop_vm(struct kr_vm *vm) {
    for (struct kr_vcpu *v = vm->vcpus, *next; v; v = next) {
        next = v->next;
        kr_sys2(__NR_munmap, v->run, vm->run_size);
        kr_fd_drop(&v->fd);
        kr_free(v, sizeof *v);
    }
    kr_fd_drop(&vm->fd);
}

static void make_vm(struct kr_task *t, long nr, const struct kr_cpu *cpu) {
    const char *why = "";
    int e = kr_vm_create(&t->mm->vm, kr_boot.fd_kvm, 0, &why);
    if (e < 0 || !(t->vcpu = kr_vcpu_get(&t->mm->vm, t)))
        kr_die("no VM after system call %ld: %s: errno %d", nr, why, -e);
    t->run = t->vcpu->run;
    kr_cpu_load(t, cpu);
}

/* The call without its pid namespace, and that alone. Whether there are two parts. */
static int split(long nr, const u64 a[6], u64 first[6], u64 second[6]) {
    int at = nr == __NR_setns; /* the argument with the flags */
    memcpy(first, a, 6 * sizeof *a);
    memcpy(second, a, 6 * sizeof *a);
    if ((nr != __NR_unshare && nr != __NR_setns) || !(a[at] & CLONE_NEWPID) || a[at] == CLONE_NEWPID)
        return 0;
    first[at] &= ~(u64)CLONE_NEWPID;
    second[at] = CLONE_NEWPID;
    return 1;
}

long kr_call_alone(struct kr_task *t, long nr, const u64 a[6]) {
    struct kr_cpu cpu;
    u64 first[6], second[6];
    if (t->mm->tasks != t || t->next || !t->vcpu)
        return -EINVAL;
    if (t->newpid) {
        kr_log("system call %ld: not served after unshare or setns of a pid namespace; do it before", nr);
        return -EINVAL;
    }
    if (kr_cpu_save(t, &cpu) < 0)
        return -ENOMEM;
    int parts = 1 + split(nr, a, first, second);
    kr_sigset old = kr_host_mask(~0ULL);
    kr_lock(&t->mm->lock);
    drop_vm(&t->mm->vm);
    long r;
    for (int tries = 0;; tries++) {
        r = kr_sys6(nr, first[0], first[1], first[2], first[3], first[4], first[5]);
        if ((r != -EINVAL && r != -EUSERS) || tries == TRIES)
            break;
        s64 pause[2] = {0, 200000}; /* the worker was told to end and may not be quite gone */
        kr_sys2(__NR_nanosleep, pause, 0);
    }
    make_vm(t, nr, &cpu);
    if (r == 0 && parts == 2) {
        r = start_worker(t) < 0 ? -ENOMEM : kr_sys2(nr, second[0], second[1]);
        if (r < 0)
            kr_log("system call %ld: all but the pid namespace is done: errno %ld", nr, -r);
    }
    kr_unlock(&t->mm->lock);
    if (!t->sig_caught)
        kr_host_mask(old);
    return r;
}
