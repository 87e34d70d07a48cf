/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's main objects.
 *
 *   kr_mm    one address space and one VM. Threads share it, and so do CLONE_VM relatives (same host mm).
 *   kr_proc  one host process: signal actions, identity of the program. The threads of a process share it.
 *            A vfork child gets its own, because the kernel gives it its own descriptors, actions and cwd.
 *   kr_task  one thread, which is one host thread. %fs points at it in monitor code. It owns a vCPU while it
 *            lives, except where vCPUs are scarce (share.h).
 *
 * Lock order, and what fork does to each piece of state: monitor/state.def.
 *
 * There are three kinds of failure:
 *   - a payload's mistake gives -errno or a signal
 *   - a set-up failure of the first program is sent as an "E" message (docs/architecture.md, "Messages")
 *   - a broken invariant ends in kr_die
 * Nothing else ends the process.
 */
#ifndef KR_VMM_H
#define KR_VMM_H

#include <linux/kvm.h>
#include <linux/personality.h>
#include <asm/siginfo.h>
#include "../lib/kr_lib.h"
#include "../lib/kr_lock.h"
#include "../lib/kr_alloc.h"
#include "layout.h"
#include "../lib/offsets.h"
#include "window.h"
#include "../guest/callpage.h"

#define KR_NSIG 64
typedef u64 kr_sigset;
#define KR_SIGBIT(sig) (1ULL << ((sig)-1))

struct kr_mm;
struct kr_vcpu;
struct kr_seccomp;

/* What the kernel's struct sigaction holds (x86-64 layout of rt_sigaction(2)). */
struct kr_sigaction {
    u64 handler;
    u64 flags;
    u64 restorer;
    kr_sigset mask;
};

struct kr_altstack {
    u64 sp;
    s32 flags;
    u32 pad;
    u64 size;
};

/* Bringing a process's threads to a stand (quiesce.h). Under mm->lock. */
struct kr_quiesce {
    struct kr_task *by; /* who asked for it; NULL: nobody */
    u32 arrivals;       /* futex word: threads that came to a stand */
    u32 rounds;         /* futex word: requests that ended */
};

/* Calls that were completed inside the guest, and calls for which its code had a way but left them to the exit, by way
 * (enum kr_way). Atomic. The payload can make its own counts wrong. */
struct kr_local_counts {
    u64 done[KR_LOCAL_WAYS], declined[KR_LOCAL_WAYS];
    u64 sites, patched; /* sites that were patched, calls by them (site.h) */
};

/* How often a site's calls were exits that could have been completed (local/sites.c). */
struct kr_local_hot {
    u64 ret; /* the return address of its calls */
    u32 count;
};

/* What a thread knows of its own completed calls (local/local.h). Only `generation` is other threads', too. */
struct kr_local {
    u32 possible;   /* the process completes calls at all, and the thread has a vCPU with the pages for it */
    u32 ways;       /* bit: a way (enum kr_way) in which the guest's code completes calls now */
    u32 generation; /* counts what has changed since; atomic */
    u32 decided;    /* the generation for which it was decided what may be completed */
    u32 watch;      /* and the board's word for traces (process/observe.h) */
    u64 done[KR_LOCAL_WAYS], declined[KR_LOCAL_WAYS],
        patched; /* the counters of the call page that have been settled */
    struct kr_local_hot hot[16];
    u64 site;            /* a site that shall be patched, by its return address; 0: none */
    u32 site_nr, sample; /* the number of its last call; the period of samples */
    u32 holder;          /* it completes calls on TCP sockets (local/sockets.h) */
    u32 clones;          /* kr_sockets.clones when its call began */
    u32 guesses;         /* kr_sockets.guesses when its call began */
    u32 named_own;       /* the call being served names an owned socket */
    u32 timer;           /* 1: there is one that bounds the delay of its sends (local/queue.c) */
    volatile u32 armed;  /* the timer runs; the host's handler clears it */
    u64 tick;            /* what the timer's signal carries: nobody else knows it */
};

struct kr_proc {
    struct kr_mm *mm;
    u32 refs;                                /* threads; atomic */
    struct kr_lock sig_lock;                 /* protects action[] */
    struct kr_sigaction action[KR_NSIG + 1]; /* the payload's view; the host's disposition follows */
    struct kr_lock exec_lock;                /* an execve, or a change of other threads' filters (exec.h) */
    int exe_fd;                              /* the program (hidden descriptor): /proc/self/exe */
    char *exe_path;                          /* its path as resolved at exec */
    u32 flags;                               /* KR_BOOTF_* */
    u32 place;                               /* 1 + its entry on the board (board.h); 0: none */
    u64 t0;                                  /* start of krun, CLOCK_MONOTONIC ns; 0 unknown */
    u32 cores;                               /* RLIMIT_CORE asks for core files (signal.c); under sig_lock */
    struct kr_quiesce quiesce;
    u64 procfs; /* the mount of the last procfs whose numbers are this process's (view/instance.c); 0: none; atomic */
    u32 pidns, userns;            /* the numbers of its pid and user namespace (process/ns.h) */
    u32 related;                  /* made with CLONE_VM, on the heap: KR_RELATED_* (process/bury.h) */
    u32 copied;                   /* counted as a private copy of the descriptor table (fdtab.c) */
    struct kr_local_counts calls; /* settled by its threads */
    u32 watched,
        watches; /* for which word of the board it was decided whether the process is traced, and whether (observe.h); atomic */
    u64 nofile_hard; /* 1 + the payload's hard RLIMIT_NOFILE if it is lower than the kernel's (fdlimit.c); else 0 */
};

/* Calls that wait with another signal mask (sigsuspend, ppoll, pselect6, epoll_pwait*) put the mask here for
 * the time of the call. The handler's mask is built from it, the mask saved in the frame from `sigmask`
 * (signal_setup_done() in kernel/signal.c). */
struct kr_wait_mask {
    u32 active;
    kr_sigset mask;
};

/* A thread's list of robust futexes. The kernel has either the payload's own head or `shadow`. `shadow` leads
 * to the payload's list; any thread of the address space can make it empty. */
struct kr_robust {
    u64 guest; /* the payload's head, as it registered it; 0: none */
    struct {
        u64 next; /* what struct robust_list_head begins with */
        s64 offset;
        u64 pending;
    } shadow;
    u32 shadowed; /* the kernel has `shadow` */
};

/* The names of the landlock domains that a thread has entered, the outermost first (process/domain.h). The kernel allows as
 * many (LANDLOCK_MAX_NUM_LAYERS). */
struct kr_domains {
    u32 n;
    u64 id[16];
};

/* Bits of task->asked: why a thread must come to the run loop. */
#define KR_ASKED_QUESTION 1u /* another monitor asks (ask.h) */
#define KR_ASKED_STAND 2u    /* another thread of the process wants it to stand (quiesce.h) */

/* What a task's maker leaves to it: written before the host's clone, read in the task's first function (process/clone.c). */
struct kr_birth {
    u64 flags;              /* of clone(2) */
    u64 maker;              /* kr_lock_self() of the maker */
    u64 set_tid, clear_tid; /* the payload's words for CLONE_CHILD_SETTID and CLONE_CHILD_CLEARTID; 0: none */
    u32 ns_kept;            /* kr_ns_kept (process/ns.h) */
};

struct kr_task {
    struct kr_task *self;    /* KR_TASK_SELF */
    volatile u32 sig_caught; /* KR_TASK_SIG_CAUGHT: a signal was caught and waits in `info`; set by the host
                                handler on this thread */
    volatile u32 asked;      /* KR_ASKED_*; atomic, because other threads set it, too. syscall.S reads it
                                together with sig_caught */
    u64 holder; /* KR_TASK_HOLDER: names the task in the locks that it holds (process/holder.h) */
    u64 pad1[2];
    u64 canary; /* KR_TASK_CANARY */

    struct kr_proc *proc;
    struct kr_mm *mm; /* == proc->mm */
    struct kr_vcpu *vcpu;
    struct kvm_run *run;    /* == vcpu->run, or == parked while the thread has no vCPU */
    struct kvm_run *parked; /* see share.h; NULL until needed */
    u32 tid;                /* real tid in the container's pid namespace */
    u32 newpid;             /* its children go to another pid namespace, and it makes no new VM (alone.c) */
    u32 standing;           /* it stands (quiesce.h); under mm->lock */
    u32 is_vfork;           /* this task runs on its parent's mm until exec or exit */
    u32 vcpu_limit; /* its descriptor table is a copy that holds the vCPUs below this number; 0: all */
    struct kr_window window;
    struct kr_local local;

    /* Filters of the OCI profile and of the payload itself. As in Linux, a thread has its own (seccomp.h).
     * Written under mm->lock, by another thread only for SECCOMP_FILTER_FLAG_TSYNC; read without a lock. */
    struct kr_seccomp *seccomp;
    u32 seccomp_mode; /* SECCOMP_MODE_*: 0 none; set after `seccomp` */
    u32 nnp;          /* no_new_privs as the payload sees it (jail.h) */
    u32 persona;      /* its personality(2): the bits of KR_PERSONA_OWN */
    struct kr_domains domains;

    /* Signals; touched by this thread and its own host handler only. */
    siginfo_t info;    /* valid while sig_caught */
    kr_sigset sigmask; /* the payload's blocked set; the host's is the same without SIGSEGV and SIGBUS */
    struct kr_wait_mask wait_mask;
    kr_sigset held; /* SIGSEGV/SIGBUS sent from outside while the payload blocks them */
    siginfo_t held_info[2];
    struct kr_altstack altstack;
    u64 fault_rip; /* where the monitor itself has faulted, or seems to have (hostsig.c) */
    u32 faults;    /* how often since the run loop */
    u64 blind_rip; /* where the host refused a page that could not be found, and how often in sequence (run.c) */
    u32 blind;

    struct kr_robust robust;   /* list of robust futexes: process/robust.h */
    u64 trapno, error, cr2;    /* of the last fault, for sigcontext (thread.trap_nr in the kernel) */
    const siginfo_t *dying_of; /* for the core file: the signal that kills, or NULL */
    u8 *xsave;                 /* 4096 bytes for frames, allocated when first needed */

    u32 slot_group; /* the group of descriptor slots that it has (fdslot.c) */
    u32 slots;      /* bit i: slot i of the group is in use; 0: it has no group */
    u32 named[3];   /* descriptors that its call names, and one that the monitor closes, each + 1; 0: none.
                     * Atomic (fdname.c) */
    /* The call being served. */
    u64 nr; /* number as the payload gave it in rax; ~0: not in a call */
    u64 args[6];
    u32 regs_replaced; /* the handler set all registers (sigreturn, exec): do not write a result */
    u32 notified;      /* what the agent has been told of the call (sys/notify.c) */
    u64 passed[7];     /* the number and the arguments that it has let pass */

    /* What another monitor asks, and the call that the question interrupted (ask.h). The host's handler writes a question at
     * any moment; it counts the questions, so that the thread can tell that it has read one as a whole. */
    u32 ask_request, ask_n;
    u64 ask_domain, ask_who; /* the asker's domain and process (process/domain.h) */
    u32 ask_count;
    u32 runs;      /* kr_run has begun */
    u32 exits;     /* returns from KVM that are not on the board yet (board.h) */
    u32 ask_early; /* a question that came before kr_run had begun */
    u32 was_asked; /* a question or a stop came during the call that is being served */
    u32 resumed;   /* a call that had begun must be executed again, at resume_rip */
    u64 resume_rip;
    u64 began;   /* kr_ticks() at the start of a call with a timeout; 0: the call has none */
    u64 waited;  /* ns that earlier executions of the call have waited */
    s64 left[2]; /* the call's timeout now */

    /* Host thread; whether it has ended: process/bury.h. */
    struct kr_life *life;   /* a page; NULL: not a task of a process made with CLONE_VM */
    struct kr_task *maker;  /* the task that makes it; NULL once it runs, or when that task is gone */
    struct kr_task *lender; /* the task that waits for it (CLONE_VFORK) and releases it; NULL: nobody */
    u32 switched;           /* the kernel has life->head, and the payload's own word for set_tid_address(2) */
    u32 leaving;            /* it executes a program: its number may become another's */
    struct kr_leaving
        *exec;      /* what the program that it executes leaves in the heap (exec.c); NULL: nothing */
    u32 waits_vcpu; /* counted in vm->waiters; under mm->lock */
    u32 errand[2];  /* numbers of its errand threads (private.c), which the kernel clears; 0: none */
    void *errand_stack[2];
    u64 clear_tid; /* the payload's word for set_tid_address(2), once switched */
    void *stack;   /* base of the mapping; NULL for the first thread */
    size_t stack_size;
    struct kr_task *next; /* list of mm->tasks, under mm->lock */
    struct kr_birth birth;
};

_Static_assert(offsetof(struct kr_task, self) == KR_TASK_SELF, "offsets.h");
_Static_assert(offsetof(struct kr_task, sig_caught) == KR_TASK_SIG_CAUGHT, "offsets.h");
_Static_assert(offsetof(struct kr_task, asked) == KR_TASK_SIG_CAUGHT + 4, "syscall.S tests both");
_Static_assert(offsetof(struct kr_task, holder) == KR_TASK_HOLDER, "offsets.h");
_Static_assert(offsetof(struct kr_task, canary) == KR_TASK_CANARY, "offsets.h");

/* The calling thread's task. */
#ifndef KR_HOSTED
static inline struct kr_task *kr_self(void) {
    struct kr_task *t;
    __asm__ volatile("mov %%fs:0, %0" : "=r"(t));
    return t;
}
#else
extern __thread struct kr_task *kr_test_self;
static inline struct kr_task *kr_self(void) { return kr_test_self; }
#endif

/* The payload's general registers, valid between exits. They are like the kernel's pt_regs: the payload goes
 * on at rip. */
static inline struct kvm_regs *kr_regs(struct kr_task *t) { return &t->run->s.regs.regs; }

/* The bits of personality(2) that the host's process never has, because they would move the monitor, its
 * memory or its stack into the payload's window at the next execve. The monitor itself gives
 * ADDR_NO_RANDOMIZE its meaning for the payload (kr_mm_random). The other bits have none (docs/limits.md). */
#define KR_PERSONA_OWN                                                                                       \
    ((u32)(ADDR_NO_RANDOMIZE | MMAP_PAGE_ZERO | ADDR_COMPAT_LAYOUT | READ_IMPLIES_EXEC | ADDR_LIMIT_32BIT |  \
           ADDR_LIMIT_3GB))

/* What the monitor was started with; set once by boot.c. */
struct kr_boot {
    const char *exe_path;
    const char *state_json;
    size_t state_json_len;
    int fd_kvm, fd_exe, fd_proc, fd_sync, fd_start, fd_result, fd_target, fd_interp, fd_log, fd_board,
        fd_relay; /* -1: absent */
    u64 flags, rlimit_stack, t0, vm_type, fd_place, exe_dev, exe_ino, personality, nofile_hard;
    int has_rlimit_stack;
    const u8 *block; /* the whole mapped block, for records that repeat (hooks, seccomp) */
    size_t block_size;
};
extern struct kr_boot kr_boot;

/* Iterates over the records of one tag. *pos is 0 at first. Returns a record's bytes and, in *len, their
 * number; NULL after the last one. */
const void *kr_boot_next(const struct kr_boot *b, u16 tag, size_t *pos, u32 *len);

/* Notes the time (CLOCK_MONOTONIC, ns) at which a stage of the start ended; sent with the messages R and O. */
void kr_stage(const char *name);

/* process/die.c */
void kr_die(const char *fmt, ...) __printf(1, 2)
    __noreturn; /* broken invariant: writes one line to the log and ends the process with status 127 */
void kr_log(const char *fmt, ...) __printf(1, 2); /* one line to FD_LOG, if any */
u64 kr_now(void);                                 /* CLOCK_MONOTONIC, ns */
/* A clock without a system call: the TSC, whose rate is unknown here. */
static inline u64 kr_ticks(void) {
    u32 lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    return (u64)hi << 32 | lo;
}

/* Returns a task with its canary and the self pointer for %fs, not yet in mm->tasks. NULL: no memory. */
struct kr_task *kr_task_new(struct kr_proc *proc);
/* Returns t's XSAVE buffer of 4096 bytes; makes it when first needed. NULL: no memory. */
u8 *kr_task_xsave(struct kr_task *t);

/* process/task.c. */
/* Ends the calling thread with a code. */
void kr_task_exit(struct kr_task *t, int code) __noreturn;
/* Ends the whole process with a code. */
void kr_exit_group(struct kr_task *t, int code) __noreturn;
/* Ends the process as the signal `sig` would. That works also for pid 1 of a pid namespace, where the kernel
 * ignores signals with default action (pid_namespaces(7)). */
void kr_die_signal(struct kr_task *t, int sig) __noreturn;

#endif
