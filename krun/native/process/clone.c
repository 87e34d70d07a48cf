/* SPDX-License-Identifier: Apache-2.0
 *
 * clone(2) in its three kinds.
 *
 *   thread   CLONE_THREAD: host thread + vCPU of the same VM.
 *   vfork    CLONE_VM without CLONE_THREAD: host process on the same mm + vCPU of the same VM (KVM asks only
 * that the mm be the same). fork     no CLONE_VM: host process with copied memory + a new VM over it, same
 * slots, same (copied) page tables.
 *
 * The host's clone3 gets the payload's flags; ids are written and cleared by the kernel in guest memory,
 * which lies at the same addresses.
 */
#include "../machine/mm.h"
#include "board.h"
#include "../machine/cpu.h"
#include "../machine/fdtab.h"
#include "hostsig.h"
#include "process.h"
#include "quiesce.h"
#include "above.h"
#include "../machine/share.h"
#include "signal.h"
#include "state.h"
#include "../machine/usercopy.h"
#include "../machine/warm.h"
#include "../machine/x86.h"
#include "robust.h"
#include "../lib/kr_linux.h"
#include <linux/futex.h>

#define STACK_SIZE KR_STACK_SIZE
#define GUARD KR_STACK_GUARD
#define SET_TID_MAX 32

/* call[0] (clone or clone3) with the arguments behind it; the child runs fn(arg) on its new stack, the parent
 * gets the child's id. */
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
    u64 f = ca->flags, both = CLONE_PIDFD | CLONE_PARENT_SETTID; /* clone has one argument for the two */
    u64 call[6] = {__NR_clone3, (u64)ca, sizeof *ca};
    int odd =
        (f & (CLONE_THREAD | CLONE_PARENT)) && ca->exit_signal; /* clone3 refuses it, clone ignores it */
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

/* The child's first state from the parent's: result 0 and the new stack. */
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

static void note_user_ns(struct kr_task *t, u64 flags) {
    if (flags & CLONE_NEWUSER)
        __atomic_or_fetch(&t->proc->flags, KR_PROCF_USERNS, __ATOMIC_RELAXED);
}

/* First code of a host thread or vfork child, on its new stack, all signals blocked. */
static void child_start(struct kr_task *t) {
    if (t->is_vfork && !(t->scratch[0] & CLONE_FILES))
        kr_fd_copy_made(t);
    __atomic_store_n(&t->tid, (u32)kr_sys0(__NR_gettid), __ATOMIC_RELEASE);
    if (t->is_vfork && (t->scratch[0] & CLONE_CLEAR_SIGHAND))
        clear_handlers(t);
    if (t->is_vfork) {
        note_user_ns(t, t->scratch[0]);
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

/* A thread or a vfork child. */
static long same_mm(struct kr_task *t, const struct kr_clone_args *ca, struct kr_clone_args *host) {
    int thread = (ca->flags & CLONE_THREAD) != 0;
    struct kr_vm *vm = &t->mm->vm;
    struct kr_cpu cpu;
    struct kr_proc *proc = thread ? t->proc : copy_proc(t->proc);
    struct kr_task *c = proc ? kr_task_new(proc) : NULL;
    long r = -ENOMEM;
    if (c && !thread)
        kr_state_vfork(c);
    if (c && !thread && (ca->flags & CLONE_VFORK))
        proc->flags |= KR_PROCF_LENT;
    if (!c || !(c->stack = kr_stack_new()))
        goto fail;
    c->stack_size = STACK_SIZE + GUARD;
    if (kr_cpu_save(t, &cpu) < 0)
        goto fail;
    child_cpu(&cpu, ca);
    int copies = !(ca->flags & CLONE_FILES);
    kr_lock(&t->mm->lock);
    c->vcpu_limit = t->vcpu_limit;
    c->vcpu = kr_vcpu_get(vm, c);
    if (copies && !c->vcpu_limit)
        c->vcpu_limit = vm->next_vcpu;
    r = 0;
    if (c->vcpu)
        c->run = c->vcpu->run;
    else if (kr_share_scarce(t))
        r = kr_share_prepare(c); /* it waits for one in kr_run */
    else
        r = -EAGAIN; /* as when the limit of threads is reached */
    if (!r) {
        kr_seccomp_inherit(c, t);
        kr_quiesce_join(c);
        c->next = t->mm->tasks;
        t->mm->tasks = c;
    }
    kr_unlock(&t->mm->lock);
    if (r < 0)
        goto fail;
    c->persona = t->persona;
    kr_cpu_load(c, &cpu);
    c->sigmask = t->sigmask;
    if (!thread || (ca->flags & CLONE_VFORK))
        c->altstack = t->altstack; /* threads start without one (sas_ss_reset) */
    if ((ca->flags & CLONE_VM) && !(ca->flags & CLONE_VFORK))
        c->altstack = (struct kr_altstack){.flags = 2};
    c->is_vfork = !thread;
    c->scratch[0] = ca->flags;
    if (thread)
        __atomic_add_fetch(&proc->refs, 1, __ATOMIC_ACQ_REL);
    host->stack = (u64)c->stack + GUARD;
    host->stack_size = STACK_SIZE;
    host->flags |= CLONE_SETTLS;
    host->tls = (u64)c;

    if (t->is_vfork && !thread)
        kr_fd_copy_stays();
    if (!copies && !thread)
        kr_files_share(t->proc, proc);
    kr_sigset old = kr_host_mask(~0ULL);
    int lends =
        !c->vcpu && (ca->flags & CLONE_VFORK); /* we wait for the child, which may have to wait for ours */
    if (lends)
        kr_share_release(t);
    kr_robust_share(t, !thread);
    if (ca->flags & CLONE_VFORK) /* the kernel waits for the child; no signal interrupts that */
        kr_quiesce_away(t);
    if (copies) /* the child keeps our files under today's numbers (fdtab.h) */
        kr_fd_copy_begin(c);
    r = kr_host_clone(host, child_start, c);
    if (copies)
        kr_fd_copy_made(c);
    if (ca->flags & CLONE_VFORK)
        kr_quiesce_back(t);
    if (copies && (r < 0 || (ca->flags & CLONE_VFORK)))
        kr_fd_copy_end();
    if (!t->sig_caught)
        kr_host_mask(old);
    if (r > 0 && !(ca->flags & CLONE_VFORK))
        return r;
    /* Failed; or a vfork child that has left this address space (CLONE_VFORK returns only then): take its
     * things back. */
    if (r < 0 && thread)
        __atomic_sub_fetch(&proc->refs, 1, __ATOMIC_ACQ_REL);
    if (r < 0 || !thread) { /* else CLONE_VFORK of a thread: it cleaned up after itself */
        kr_lock(&t->mm->lock);
        kr_task_release(c);
        kr_unlock(&t->mm->lock);
        kr_robust_unshare(t, !thread);
    }
    /* A vCPU that was lent is taken again at the run loop. */
    if (r > 0 && thread)
        return r;
fail:
    if (c && c->stack)
        kr_sys2(__NR_munmap, c->stack, STACK_SIZE + GUARD);
    kr_free(c, sizeof *c);
    if (!thread)
        kr_free(proc, sizeof *proc);
    return r;
}

/* In the child of fork: this thread is alone; the parent's VM is of no use; everything else was copied. */
static void fork_child(struct kr_task *t, const struct kr_clone_args *ca, struct kr_cpu *cpu) {
    struct kr_mm *mm = t->mm;
    struct kr_vm *vm = &mm->vm;
    const char *why;
    kr_state_fork_child(t);
    kr_warm_fork(mm, cpu->regs.rsp);
    int r = kr_vm_create(vm, kr_boot.fd_kvm, 0, &why);
    t->vcpu = r < 0 ? NULL : kr_vcpu_get(vm, t);
    if (!t->vcpu) {
        /* Memory or descriptors have run out (a low RLIMIT_AS or RLIMIT_NOFILE does it). The parent has its
         * answer already and waiting for us would cost every fork a switch: the child ends as by the OOM
         * killer. */
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
    note_user_ns(t, ca->flags);
    kr_board_enter(t);
    t->regs_replaced = 1;
}

static long fork_mm(struct kr_task *t, const struct kr_clone_args *ca, struct kr_clone_args *host) {
    struct kr_cpu cpu;
    if (kr_cpu_save(t, &cpu) < 0)
        return -ENOMEM;
    host->stack = host->stack_size = 0;
    host->flags &= ~(u64)CLONE_SETTLS;
    /* SIGSEGV and SIGBUS, too: what is caught before is the parent's, what comes after finds a whole child. */
    kr_sigset all = ~0ULL, old;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    if (t->sig_caught) {
        kr_host_mask(~0ULL);
        return -KR_ERESTART;
    }
    kr_state_before_fork(t);
    long r = kr_host_clone(host, NULL, NULL);
    if (r == 0) {
        fork_child(t, ca, &cpu);
    } else {
        kr_state_fork_parent(t);
        if (r > 0) {
            kr_lock(&t->mm->lock);
            kr_warm_fork(t->mm, cpu.regs.rsp);
            kr_unlock(&t->mm->lock);
        }
    }
    kr_host_mask(r == 0 ? t->sigmask : old);
    return r;
}

/* What no flag asks for is not looked at: libraries leave there what was in the register. */
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
        return -KR_ERESTART; /* as copy_process(): a pending signal comes first */
    if (((f & CLONE_THREAD) && !(f & CLONE_SIGHAND)) || ((f & CLONE_SIGHAND) && !(f & CLONE_VM)) ||
        ((f & CLONE_SIGHAND) && (f & CLONE_CLEAR_SIGHAND)))
        return -EINVAL;
    /* A shared descriptor table over two address spaces: each monitor's own descriptors would lie open in the
     * other's. A limit (docs/limits.md); no program is known to want it. */
    if ((f & CLONE_FILES) && !(f & CLONE_VM)) {
        kr_log("clone: CLONE_FILES without CLONE_VM is not served");
        return -EINVAL;
    }
    if ((f & CLONE_THREAD) && !(f & CLONE_FILES)) {
        /* A thread that keeps a copy of the table for good would hold our files under numbers that change. */
        kr_log("clone: CLONE_THREAD without CLONE_FILES is not served");
        return -EINVAL;
    }
    /* A thread's vCPU is a descriptor of its maker's table but serves the whole address space later: a
     * process that shares its memory and not its table must not make one. */
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
    if (ca->set_tid_size) {
        if (ca->set_tid_size > SET_TID_MAX)
            return -EINVAL;
        if (kr_copy_in(set_tid, ca->set_tid, ca->set_tid_size * 4) < 0)
            return -EFAULT;
        host.set_tid = (u64)set_tid;
    }
    if (f & CLONE_VM)
        return same_mm(t, ca, &host);
    return fork_mm(t, ca, &host);
}
