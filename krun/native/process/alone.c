/* SPDX-License-Identifier: Apache-2.0
 *
 * Host calls that Linux serves only to a process of one thread: unshare(2) and setns(2) of a user namespace,
 * setns(2) of a mount namespace. KVM's worker thread, which recovers huge pages, is a thread of the process
 * and shares its fs_struct as long as the VM exists. Therefore the monitor destroys the VM before the call
 * and creates a new one after it.
 *
 * A pid namespace for the children (CLONE_NEWPID) comes last, after the worker of the new VM has started:
 * copy_process() in the kernel refuses a new thread in a process whose children go to another pid namespace,
 * and no VM runs without its worker. For the same reason the VM of such a process cannot be created again;
 * task->newpid records this. The file has no other state.
 */
#include "../machine/above.h"
#include "../machine/cpu.h"
#include "../machine/fdtab.h"
#include "hostsig.h"
#include "../machine/mm.h"
#include "process.h"
#include <asm/signal.h>
#include <linux/mman.h>
#include <linux/resource.h>
#include <linux/sched.h>

#define TRIES 20

int kr_children_elsewhere(void) {
    char own[32], children[32];
    long n = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, "thread-self/ns/pid", own, sizeof own);
    long m = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, "thread-self/ns/pid_for_children", children,
                     sizeof children);
    /* -ENOENT: the namespace of the children has no process yet. */
    return n <= 0 || n != m || memcmp(own, children, (size_t)n) != 0;
}

/* Makes KVM start its worker thread, which KVM does in the first KVM_RUN of a VM: one KVM_RUN with
 * immediate_exit set. 0 or -errno. */
static long start_worker(struct kr_task *t) {
    long r = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        t->run->immediate_exit = 1;
        r = kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
        t->run->immediate_exit = 0;
        if (r != -EAGAIN)
            break;
        s64 pause[2] = {0, 1000000}; /* the limit of threads is reached */
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

/* Gives back in lim the limits of address space. The soft limit is raised meanwhile: it may be below what the process
 * has, and then the new VM's memory could not take the place of the old one's. */
static void lift_limit(u64 lim[2]) {
    if (kr_sys4(__NR_prlimit64, 0, RLIMIT_AS, 0, lim) == 0 && lim[0] < lim[1]) {
        u64 all[2] = {lim[1], lim[1]};
        kr_sys4(__NR_prlimit64, 0, RLIMIT_AS, all, 0);
    }
}

static void restore_limit(const u64 lim[2]) {
    if (lim[0] < lim[1])
        kr_sys4(__NR_prlimit64, 0, RLIMIT_AS, lim, 0);
}

/* Whether the limits let the vCPU of a new VM be mapped, asked while the old VM still stands. */
static int has_room(const struct kr_vm *vm) {
    long p = kr_sys6(__NR_mmap, 0, vm->run_size, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, (u64)-1, 0);
    if (p < 0)
        return 0;
    kr_sys2(__NR_munmap, p, vm->run_size);
    return 1;
}

static void make_vm(struct kr_task *t, long nr, const struct kr_cpu *cpu) {
    const char *why = "";
    int e = kr_vm_create(&t->mm->vm, kr_boot.fd_kvm, 0, &why);
    if (e < 0 || !(t->vcpu = kr_vcpu_get(&t->mm->vm, t))) {
        /* The host has run out of memory. The program ends as by the OOM killer (also fork_child() in clone.c). */
        kr_log("no VM after system call %ld: %s: errno %d", nr, e < 0 ? why : "KVM_CREATE_VCPU",
               e < 0 ? -e : ENOMEM);
        kr_die_signal(t, SIGKILL);
    }
    t->run = t->vcpu->run;
    kr_cpu_load(t, cpu);
}

/* Splits a call that also names a pid namespace: first has all flags except CLONE_NEWPID, second has
 * CLONE_NEWPID only. Returns whether there are two parts. */
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
    if (t->mm->relatives) {
        kr_lock(&t->mm->lock);
        kr_bury(t, 1);
        kr_unlock(&t->mm->lock);
    }
    if (t->mm->tasks != t || t->next || !t->vcpu)
        return -EINVAL;
    if (t->newpid) {
        kr_log("system call %ld: not served after unshare or setns of a pid namespace; do it before", nr);
        return -EINVAL;
    }
    if (kr_cpu_save(t, &cpu) < 0)
        return -ENOMEM;
    int parts = 1 + split(nr, a, first, second);
    u64 lim[2] = {0, 0};
    kr_sigset old = kr_host_mask(~0ULL);
    kr_lock(&t->mm->lock);
    lift_limit(lim);
    if (!has_room(&t->mm->vm)) {
        restore_limit(lim);
        kr_unlock(&t->mm->lock);
        kr_host_mask_back(t, old);
        return -ENOMEM;
    }
    drop_vm(&t->mm->vm);
    long r;
    for (int tries = 0;; tries++) {
        r = kr_sys6(nr, first[0], first[1], first[2], first[3], first[4], first[5]);
        if ((r != -EINVAL && r != -EUSERS) || tries == TRIES)
            break;
        s64 pause[2] = {0, 200000}; /* the worker has been told to end and may still exist */
        kr_sys2(__NR_nanosleep, pause, 0);
    }
    make_vm(t, nr, &cpu);
    restore_limit(lim);
    if (r == 0 && parts == 2) {
        r = start_worker(t) < 0 ? -ENOMEM : kr_sys2(nr, second[0], second[1]);
        if (r < 0)
            kr_log("system call %ld: all but the pid namespace is done: errno %ld", nr, -r);
    }
    kr_unlock(&t->mm->lock);
    kr_host_mask_back(t, old);
    return r;
}
