/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads and processes of the host: making task objects, and every way in which a thread or a process ends.
 */
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "board.h"
#include "bury.h"
#include "core.h"
#include "exec.h"
#include "holder.h"
#include "hostsig.h"
#include "observe.h"
#include "process.h"
#include "above.h"
#include "state.h"
#include "trace.h"
#include "robust.h"
#include <linux/signal.h>

struct kr_task *kr_task_new(struct kr_proc *proc) {
    struct kr_task *t = kr_alloc(sizeof *t);
    if (!t)
        return NULL;
    t->self = t;
    t->proc = proc;
    t->mm = proc ? proc->mm : NULL;
    t->nr = ~0ULL;
    t->altstack.flags = SS_DISABLE;
    kr_sys3(__NR_getrandom, &t->canary, sizeof t->canary, 0);
    t->canary &= ~0xffULL; /* a NUL byte stops string overruns */
    return t;
}

u8 *kr_task_xsave(struct kr_task *t) {
    if (!t->xsave)
        t->xsave = kr_alloc(4096);
    return t->xsave;
}

/* Releases what a task owns, except its stack and the task itself. Lock: mm->lock. */
void kr_task_release(struct kr_task *t) {
    for (struct kr_task **p = &t->mm->tasks; *p; p = &(*p)->next)
        if (*p == t) {
            *p = t->next;
            break;
        }
    if (t->local.holder)
        kr_sockets_release(t);
    kr_life_released(t);
    kr_slots_release(t);
    struct kr_vcpu *v = t->vcpu;
    u8 *xsave = t->xsave;
    struct kvm_run *parked = t->parked;
    /* The task forgets each thing before the thing is given back: a process that is killed in between loses the
     * thing, and nobody gives it back twice. */
    t->vcpu = NULL;
    t->xsave = NULL;
    t->parked = NULL;
    if (v)
        kr_vcpu_put(&t->mm->vm, v);
    kr_seccomp_drop(t);
    kr_exec_left(t);
    kr_free(xsave, 4096);
    kr_free(parked, sizeof *parked);
    kr_life_free(t);
}

void kr_process_alone(struct kr_task *t) {
    t->proc->refs = 1;
    t->proc->place = 0; /* the maker's; kr_board_enter gives it its own */
    __atomic_and_fetch(&t->proc->flags, ~(KR_PROCF_LENT | KR_PROCF_RECORD_LOCKS), __ATOMIC_RELAXED);
    memset(&t->proc->quiesce, 0, sizeof t->proc->quiesce);
}

void kr_tasks_after_fork(struct kr_task *t) {
    struct kr_mm *mm = t->mm;
    for (struct kr_task *o = mm->tasks, *next; o; o = next) {
        next = o->next;
        if (o == t)
            continue;
        kr_exec_left(o);
        if (o->stack)
            kr_sys2(__NR_munmap, o->stack, o->stack_size);
        kr_seccomp_drop(o);
        kr_free(o, sizeof *o);
    }
    mm->tasks = t;
    t->next = NULL;
    t->tid = (u32)kr_sys0(__NR_gettid);
    kr_holder_learn(t);
    t->is_vfork = t->vcpu_limit = t->asked = t->resumed = t->newpid = 0;
    t->held = 0; /* a child has no pending signals (fork(2)) */
}

/* Unmaps the stack of this thread and ends the thread. Between the two calls no stack may be touched, so both
 * are made in assembler. */
__attribute__((noreturn)) static void unmap_and_exit(void *stack, size_t size, int code) {
    register long nr __asm__("rax") = __NR_munmap;
    register void *p __asm__("rdi") = stack;
    register size_t n __asm__("rsi") = size;
    register long c __asm__("r12") = code;
    __asm__ volatile("syscall\n\tmov %%r12, %%rdi\n\tmov %[exit], %%eax\n\tsyscall\n\tud2"
                     :
                     : "r"(nr), "r"(p), "r"(n), "r"(c), [exit] "i"(__NR_exit)
                     : "memory");
    __builtin_unreachable();
}

void kr_task_exit(struct kr_task *t, int code) {
    struct kr_proc *p = t->proc;
    if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0)
        kr_exit_group(t, code); /* the last thread: its code is the status of the process, as on Linux */
    kr_board_count(t);
    kr_robust_exit(t); /* the kernel's own walk could write to words of the monitor */
    kr_life_end(t);
    u64 all = ~0ULL;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, 0,
            8); /* after this call no signal handler runs on this stack */
    struct kr_mm *mm = t->mm;
    void *stack = t->stack;
    size_t size = t->stack_size;
    kr_lock(&mm->lock);
    kr_task_release(t);
    if (stack) /* no code looks for the task: signals are blocked, and the task is off the list */
        kr_free(t, sizeof *t);
    kr_unlock(&mm->lock);
    if (stack)
        unmap_and_exit(stack, size, code);
    for (;;)
        kr_sys1(__NR_exit, code);
}

void kr_exit_group(struct kr_task *t, int code) {
    if (kr_trace_on && t && !t->is_vfork)
        kr_trace_summary();
    if (t) {
        kr_board_count(t);
        kr_board_leave(t);
    }
    for (;;)
        kr_sys1(__NR_exit_group, code);
}

/* An address at which this process maps nothing: the gap below the monitor (docs/memory.md). */
#define NOWHERE (KR_WINDOW_END + (1ULL << 30))

/* Makes the kernel force a SIGSEGV, because the frame of a caught signal cannot be written (force_sigsegv()).
 * A real fault would write a line about krun-monitor into the host's log. Returns if the kernel did not end
 * the process. */
static void force_segv(void) {
    struct kr_altstack stack = {.sp = NOWHERE, .size = 1u << 20};
    struct kr_sigaction act = {.handler = (u64)kr_host_handler,
                               .flags = SA_ONSTACK | SA_RESTORER,
                               .restorer = (u64)kr_host_restorer};
    kr_sys2(__NR_sigaltstack, &stack, 0);
    kr_sys4(__NR_rt_sigaction, SIGUSR1, &act, 0, 8);
    kr_sys3(__NR_tgkill, kr_sys0(__NR_getpid), kr_sys0(__NR_gettid), SIGUSR1);
}

/* Ends the process by a real signal. For pid 1 of a pid namespace the kernel drops a signal with default
 * action that comes from inside the namespace. A forced signal kills even pid 1, so a fault of the same kind
 * is raised. */
void kr_die_signal(struct kr_task *t, int sig) {
    struct kr_sigaction dfl = {0};
    if (kr_trace_on && !t->is_vfork)
        kr_trace_summary();
    kr_board_count(t);
    kr_observe_killed(t, sig);
    kr_core_dump(t, sig, t->dying_of);
    kr_sys4(__NR_rt_sigaction, sig, &dfl, 0, 8);
    kr_sigset none = 0;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
    kr_sys3(__NR_tgkill, kr_sys0(__NR_getpid), kr_sys0(__NR_gettid), sig);
    switch (sig) {
    case SIGSEGV:
        force_segv();
        break;
    case SIGILL:
        __asm__ volatile("ud2");
        break;
    case SIGFPE:
        __asm__ volatile("xor %%ecx, %%ecx\n\tdivl %%ecx" : : : "eax", "ecx", "edx");
        break;
    case SIGTRAP:
        __asm__ volatile("int3");
        break;
    case SIGBUS: /* alignment check */
        __asm__ volatile(
            "pushfq\n\torl $0x40000, (%%rsp)\n\tpopfq\n\tmov %%rsp, %%rax\n\tmovl 1(%%rax), %%eax"
            :
            :
            : "rax", "memory");
        break;
    }
    kr_sys1(__NR_exit_group, 128 + sig); /* no signal ended the process */
    for (;;)
        ;
}
