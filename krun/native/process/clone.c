/* SPDX-License-Identifier: Apache-2.0
 *
 * clone(2). There are three kinds of children:
 *
 *   thread   CLONE_THREAD: a host thread and a vCPU of the same VM.
 *   vfork    CLONE_VM without CLONE_THREAD: a host process on the same mm and a vCPU of the same VM. KVM only
 *            requires that the mm is the same.
 *   fork     no CLONE_VM: a host process with copied memory and a new VM over it, with the same slots and the
 *            same (copied) page tables.
 *
 * The host's clone3 gets the payload's flags. The kernel writes and clears the thread ids in guest memory,
 * because guest memory lies at the same addresses in the host's process.
 */
#include "../machine/mm.h"
#include "board.h"
#include "bury.h"
#include "../machine/cpu.h"
#include "../machine/fdtab.h"
#include "holder.h"
#include "hostsig.h"
#include "nnp.h"
#include "ns.h"
#include "process.h"
#include "quiesce.h"
#include "above.h"
#include "../machine/share.h"
#include "signal.h"
#include "state.h"
#include "../machine/usercopy.h"
#include "../machine/vdso.h"
#include "../machine/warm.h"
#include "../machine/x86.h"
#include "robust.h"
#include "../lib/kr_linux.h"
#include <linux/futex.h>

#define STACK_SIZE KR_STACK_SIZE
#define GUARD KR_STACK_GUARD
#define SET_TID_MAX 32

/* Makes the call call[0] (clone or clone3) with the arguments behind it. The child runs fn(arg) on its new
 * stack. The parent gets the child's id or -errno. */
long kr_clone_call(const u64 call[6], void (*fn)(struct kr_task *), struct kr_task *arg);
__asm__(".text\n"
        "kr_clone_call:\n"
        "    push %rbx\n"
        "    mov %rsi, %rbx\n"
        "    mov %rdx, %r9\n"
        "    mov (%rdi), %rax\n"
        "    mov 16(%rdi), %rsi\n"
        "    mov 24(%rdi), %rdx\n"
        "    mov 32(%rdi), %r10\n"
        "    mov 40(%rdi), %r8\n"
        "    mov 8(%rdi), %rdi\n"
        "    syscall\n"
        "    test %rax, %rax\n"
        "    jnz 1f\n"
        "    xor %ebp, %ebp\n"
        "    mov %r9, %rdi\n"
        "    call *%rbx\n"
        "    ud2\n"
        "1:  pop %rbx\n"
        "    ret\n");

long kr_host_clone(struct kr_clone_args *ca, void (*fn)(struct kr_task *), struct kr_task *arg) {
    u64 f = ca->flags, both = CLONE_PIDFD | CLONE_PARENT_SETTID; /* clone(2) has one argument for both */
    u64 call[6] = {__NR_clone3, (u64)ca, sizeof *ca};
    /* clone3 refuses the signal, clone ignores it. */
    int odd = (f & (CLONE_THREAD | CLONE_PARENT)) && ca->exit_signal;
    if (!odd && !(f >> 32) && !(f & (CSIGNAL | CLONE_DETACHED)) && (f & both) != both &&
        ca->exit_signal <= 64 && !ca->set_tid && !ca->set_tid_size && !ca->cgroup &&
        !ca->stack == !ca->stack_size) {
        call[0] = __NR_clone;
        call[1] = f | ca->exit_signal;
        call[2] = ca->stack + ca->stack_size;
        call[3] = f & CLONE_PIDFD ? ca->pidfd : ca->parent_tid;
        call[4] = ca->child_tid;
        call[5] = ca->tls;
    }
    return fn ? kr_clone_call(call, fn, arg)
              : kr_sys5((long)call[0], call[1], call[2], call[3], call[4], call[5]);
}

/* Changes a copy of the parent's processor state to the child's first state: result 0, the new stack, the new
 * thread pointer. */
static void child_cpu(struct kr_cpu *cpu, const struct kr_clone_args *ca) {
    cpu->regs.rax = 0;
    if (ca->stack)
        cpu->regs.rsp = ca->stack + ca->stack_size;
    if (ca->flags & CLONE_SETTLS)
        cpu->fs.base = ca->tls;
}

static void clear_handlers(struct kr_task *t) {
    for (int sig = 1; sig <= KR_NSIG; sig++) {
        struct kr_sigaction dfl = {0};
        if (t->proc->action[sig].handler > 1)
            kr_sigaction_set(t, sig, &dfl, NULL);
    }
}

/* The first function of a host thread or vfork child. It runs on the new stack with all signals blocked. */
static void child_start(struct kr_task *t) {
    if (t->is_vfork && (t->birth.flags & (CLONE_FILES | CLONE_VFORK)) == CLONE_VFORK)
        kr_fd_copy_made(t->birth.maker);
    kr_holder_learn(t);
    __atomic_store_n(&t->tid, (u32)kr_sys0(__NR_gettid), __ATOMIC_RELEASE);
    kr_life_begin(t);
    if (t->is_vfork && (t->birth.flags & CLONE_CLEAR_SIGHAND))
        clear_handlers(t);
    if (t->is_vfork) {
        if (!t->birth.ns_kept)
            kr_ns_born(t->proc);
        kr_board_enter(t);
    }
    kr_host_mask(t->sigmask);
    kr_run(t);
}

void *kr_stack_new(void) {
    long p = kr_sys6(__NR_mmap, 0, STACK_SIZE + GUARD, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, (u64)-1, 0);
    if (p < 0)
        return NULL;
    if (kr_sys3(__NR_mprotect, p + GUARD, STACK_SIZE, PROT_READ | PROT_WRITE) < 0) {
        kr_sys2(__NR_munmap, p, STACK_SIZE + GUARD);
        return NULL;
    }
    return (void *)p;
}

static struct kr_proc *copy_proc(struct kr_proc *p) {
    struct kr_proc *c = kr_alloc(sizeof *c);
    if (c) {
        kr_lock(&p->sig_lock);
        *c = *p;
        kr_unlock(&p->sig_lock);
    }
    return c;
}

/* Gives c a vCPU, or a place among the tasks that share them, and puts it on mm->tasks. copies: c will have a copy of
 * the descriptor table. 0, -ENOMEM, or -EAGAIN: KVM gives no more vCPUs. */
static long join_mm(struct kr_task *c, struct kr_task *t, int copies) {
    struct kr_vm *vm = &t->mm->vm;
    long r = 0;
    kr_lock(&t->mm->lock);
    if (t->mm->relatives)
        kr_bury(t, 0);
    c->vcpu_limit = t->vcpu_limit;
    c->vcpu = kr_vcpu_get(vm, c);
    if (!c->vcpu && t->mm->relatives) {
        kr_bury(t, 1);
        c->vcpu = kr_vcpu_get(vm, c);
    }
    if (copies && !c->vcpu_limit)
        c->vcpu_limit = vm->next_vcpu;
    if (c->vcpu)
        c->run = c->vcpu->run;
    else if (kr_share_scarce(t))
        r = kr_share_prepare(c); /* the thread waits for a vCPU in kr_run */
    else
        r = -EAGAIN; /* the result of the kernel at the limit of threads */
    if (!r) {
        kr_seccomp_inherit(c, t);
        kr_common_inherit(c, t);
        kr_quiesce_join(c);
        c->next = t->mm->tasks;
        t->mm->tasks = c;
    }
    kr_unlock(&t->mm->lock);
    return r;
}

/* Gives c what it takes over from t, except its processor state. */
static void inherit(struct kr_task *c, const struct kr_task *t, u64 flags) {
    c->persona = t->persona;
    c->domains = t->domains;
    c->sigmask = t->sigmask;
    c->is_vfork = !(flags & CLONE_THREAD);
    if (c->is_vfork || (flags & CLONE_VFORK))
        c->altstack = t->altstack; /* a thread starts without an alternate stack (sas_ss_reset()) */
    if (!(flags & CLONE_VFORK))
        c->altstack = (struct kr_altstack){.flags = 2};
    c->window.last = kr_window_row(t->nr);
    c->birth.flags = flags;
    c->birth.maker = kr_lock_self();
    c->birth.ns_kept = (u32)kr_ns_kept(t, flags);
}

/* Makes the host's thread or process for c. With CLONE_VFORK it returns when c is gone. The child's id or -errno. */
static long start(struct kr_task *c, struct kr_task *t, u64 flags, struct kr_clone_args *host) {
    int thread = (flags & CLONE_THREAD) != 0, copies = !(flags & CLONE_FILES),
        waits = (flags & CLONE_VFORK) != 0;
    host->stack = (u64)c->stack + GUARD;
    host->stack_size = STACK_SIZE;
    host->flags |= CLONE_SETTLS;
    host->tls = (u64)c;
    if (c->life)
        kr_life_clone(c, host);
    if (t->is_vfork && !thread)
        kr_fd_copy_stays();
    if (!copies && !thread)
        kr_files_share(t->proc, c->proc);
    kr_sigset old = kr_host_mask(~0ULL);
    /* The parent waits for the child, and the child may have to wait for the parent's vCPU. */
    if (!c->vcpu && waits)
        kr_share_release(t);
    kr_robust_share(t, !thread);
    if (!thread)
        c->proc->related = KR_RELATED_COUNTED;
    if (waits) /* the kernel waits for the child; no signal interrupts that */
        kr_quiesce_away(t);
    if (copies) { /* the child keeps the monitor's descriptors under the present numbers (machine/fdtab.h) */
        kr_fd_copy_begin();
        c->proc->copied = 1;
    }
    long r = kr_host_clone(host, child_start, c);
    if (copies)
        kr_fd_copy_made(kr_lock_self());
    if (waits)
        kr_quiesce_back(t);
    if (copies && (r < 0 || waits)) {
        c->proc->copied = 0; /* first: nobody ends the same copy again if this process is killed in between */
        kr_fd_copy_end();
    }
    kr_host_mask_back(t, old);
    return r;
}

/* Makes a thread or a vfork child. */
static long same_mm(struct kr_task *t, const struct kr_clone_args *ca, struct kr_clone_args *host) {
    int thread = (ca->flags & CLONE_THREAD) != 0, waits = (ca->flags & CLONE_VFORK) != 0;
    struct kr_cpu cpu;
    struct kr_proc *proc = thread ? t->proc : copy_proc(t->proc);
    struct kr_task *c = proc ? kr_task_new(proc) : NULL;
    long r = -ENOMEM;
    if (c && !thread) {
        kr_state_vfork(c);
        proc->related = KR_RELATED_MADE;
        proc->copied = 0;
    }
    if (c && !thread && waits)
        proc->flags |= KR_PROCF_LENT;
    if (!c || !(c->stack = kr_stack_new()))
        goto fail;
    c->stack_size = STACK_SIZE + GUARD;
    if (kr_life_make(c, t, waits && !thread) < 0 || kr_cpu_save(t, &cpu) < 0)
        goto fail;
    child_cpu(&cpu, ca);
    r = join_mm(c, t, !(ca->flags & CLONE_FILES));
    if (r < 0)
        goto fail;
    inherit(c, t, ca->flags);
    kr_cpu_load(c, &cpu);
    if (thread)
        __atomic_add_fetch(&proc->refs, 1, __ATOMIC_ACQ_REL);
    r = start(c, t, ca->flags, host);
    if (r > 0 && !waits)
        return r;
    /* The clone has failed, or a vfork child has left this address space (CLONE_VFORK returns only then). The
     * parent releases what the child had. */
    if (r < 0 && thread)
        __atomic_sub_fetch(&proc->refs, 1, __ATOMIC_ACQ_REL);
    if (r < 0 || !thread) { /* else CLONE_VFORK with CLONE_THREAD: the thread has released its own */
        kr_errands_over(c);
        kr_lock(&t->mm->lock);
        kr_task_release(c);
        kr_unlock(&t->mm->lock);
        kr_robust_unshare(t, !thread);
    }
    /* A parent that has given its vCPU away acquires one again at the run loop. */
    if (r > 0 && thread)
        return r;
fail:
    if (c && c->stack)
        kr_sys2(__NR_munmap, c->stack, STACK_SIZE + GUARD);
    if (c)
        kr_life_free(c);
    kr_free(c, sizeof *c);
    if (!thread)
        kr_free(proc, sizeof *proc);
    return r;
}

/* Runs in the child of a fork. This thread is the only one. The parent's VM is useless here; all other state
 * was copied. */
static void fork_child(struct kr_task *t, const struct kr_clone_args *ca, struct kr_cpu *cpu, int ns_kept) {
    struct kr_mm *mm = t->mm;
    struct kr_vm *vm = &mm->vm;
    const char *why;
    kr_life_after_fork(t);
    kr_state_fork_child(t);
    kr_warm_fork(mm, cpu->regs.rsp);
    int r = kr_vm_create(vm, kr_boot.fd_kvm, 0, &why);
    t->vcpu = r < 0 ? NULL : kr_vcpu_get(vm, t);
    if (!t->vcpu) {
        /* Memory or descriptors have run out (a low RLIMIT_AS or RLIMIT_NOFILE). The parent's fork has
         * returned already, because waiting for the child would cost every fork a context switch. The child
         * ends with SIGKILL, as the OOM killer does it. */
        kr_log("fork: %s: errno %d", r < 0 ? why : "KVM_CREATE_VCPU", r < 0 ? -r : ENOMEM);
        kr_die_signal(t, SIGKILL);
    }
    t->run = t->vcpu->run;
    child_cpu(cpu, ca);
    kr_cpu_load(t, cpu);
    if (ca->flags & CLONE_CLEAR_SIGHAND)
        clear_handlers(t);
    if (t->proc->cores && kr_sys0(__NR_getpid) == 1)
        kr_signal_cores(t);
    if (!ns_kept)
        kr_ns_born(t->proc);
    kr_board_enter(t);
    t->regs_replaced = 1;
}

static long fork_mm(struct kr_task *t, const struct kr_clone_args *ca, struct kr_clone_args *host) {
    struct kr_cpu cpu;
    if (kr_cpu_save(t, &cpu) < 0)
        return -ENOMEM;
    host->stack = host->stack_size = 0;
    host->flags &= ~(u64)CLONE_SETTLS;
    /* SIGSEGV and SIGBUS are blocked, too. A signal caught before belongs to the parent; a signal that comes
     * later finds a complete child. */
    kr_sigset all = ~0ULL, old;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    if (t->sig_caught) {
        kr_host_mask(~0ULL);
        return -KR_ERESTART;
    }
    int ns_kept = kr_ns_kept(t, ca->flags); /* before kr_state_fork_child forgets */
    kr_state_before_fork(t);
    long r = kr_host_clone(host, NULL, NULL);
    if (r == 0) {
        fork_child(t, ca, &cpu, ns_kept);
    } else {
        kr_state_fork_parent(t);
        if (r > 0) {
            kr_lock(&t->mm->lock);
            kr_warm_fork(t->mm, cpu.regs.rsp);
            kr_unlock(&t->mm->lock);
        }
    }
    kr_host_mask(r == 0 ? t->sigmask : old);
    if (r == 0)
        kr_vdso_child(t->mm);
    return r;
}

/* Clears the pointers that no flag uses: libraries leave in them the previous content of the register. */
static void drop_unused(struct kr_clone_args *a) {
    if (!(a->flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)))
        a->child_tid = 0;
    if (!(a->flags & CLONE_PARENT_SETTID))
        a->parent_tid = 0;
    if (!(a->flags & CLONE_PIDFD))
        a->pidfd = 0;
}

long kr_clone(struct kr_task *t, const struct kr_clone_args *ca) {
    u64 f = ca->flags;
    s32 set_tid[SET_TID_MAX];
    if (t->sig_caught)
        return -KR_ERESTART; /* a pending signal comes first, as in copy_process() */
    if (((f & CLONE_THREAD) && !(f & CLONE_SIGHAND)) || ((f & CLONE_SIGHAND) && !(f & CLONE_VM)) ||
        ((f & CLONE_SIGHAND) && (f & CLONE_CLEAR_SIGHAND)))
        return -EINVAL;
    /* A descriptor table shared by two address spaces would show each monitor's own descriptors to the other
     * one. This is a limit (docs/limits.md); no known program uses the combination. */
    if ((f & CLONE_FILES) && !(f & CLONE_VM)) {
        kr_log("clone: CLONE_FILES without CLONE_VM is not served");
        return -EINVAL;
    }
    if ((f & CLONE_THREAD) && !(f & CLONE_FILES)) {
        /* A thread that keeps a copy of the table would hold the monitor's descriptors under numbers that
         * change. */
        kr_log("clone: CLONE_THREAD without CLONE_FILES is not served");
        return -EINVAL;
    }
    /* A thread's vCPU is a descriptor in the table of the process that makes the thread, but serves the whole
     * address space later. Therefore a process that shares its memory but not its table must not make a
     * thread. */
    u32 flags = __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED);
    if ((f & CLONE_THREAD) &&
        ((flags & KR_PROCF_LENT) || (t->is_vfork && !(flags & KR_PROCF_SHARED_FILES)))) {
        kr_log("clone: no threads in a process made by vfork or by CLONE_VM without CLONE_FILES");
        return -EAGAIN;
    }
    struct kr_clone_args host = *ca;
    drop_unused(&host);
    if (!kr_span_ok(host.child_tid, 4) || !kr_span_ok(host.parent_tid, 4) || !kr_span_ok(host.pidfd, 4))
        return -EFAULT;
    if (ca->stack_size ? !kr_span_ok(ca->stack, ca->stack_size) : !kr_span_ok(ca->stack, 0))
        return -EINVAL;
    if ((f & CLONE_SETTLS) && ca->tls >= KR_WINDOW_END)
        return -EPERM;
    host.flags &= ~((u64)CLONE_CLEAR_SIGHAND | CLONE_PTRACE | CLONE_UNTRACED);
    /* Each process has actions of its own here (docs/limits.md). On the host, too: one that dies takes the monitor's
     * handlers away (kr_die_signal). */
    if (!(f & CLONE_THREAD))
        host.flags &= ~(u64)CLONE_SIGHAND;
    if (ca->set_tid_size) {
        if (ca->set_tid_size > SET_TID_MAX || !ca->set_tid)
            return -EINVAL;
        if (kr_copy_in(set_tid, ca->set_tid, ca->set_tid_size * 4) < 0)
            return -EFAULT;
        host.set_tid = (u64)set_tid;
    }
    int sockets = t->mm->sockets && !(f & CLONE_THREAD);
    if (sockets)
        kr_sockets_clone(t, 1);
    else if ((f & CLONE_THREAD) && t->local.possible)
        kr_sockets_thread(t);
    long r = f & CLONE_VM ? same_mm(t, ca, &host) : fork_mm(t, ca, &host);
    if (sockets)
        kr_sockets_clone(t, 0);
    return r;
}
