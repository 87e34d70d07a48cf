/* SPDX-License-Identifier: Apache-2.0
 *
 * The run loop of a thread: enter the guest, find out why it returned, act.
 *
 * RIP alone decides what an exit means, never the exit reason. In the LSTAR stub of this vCPU the exit is a
 * system call, in the exception stubs an exception; at any other address an OUT is a forgery (#GP). The rule
 * also holds when a signal stops the guest between SYSCALL and the OUT of the stub.
 */
#include "exception.h"
#include "../view/ask.h"
#include "../machine/cpu.h"
#include "../machine/mm.h"
#include "../process/board.h"
#include "../process/process.h"
#include "../process/quiesce.h"
#include "../machine/share.h"
#include "../machine/site.h"
#include "../process/signal.h"
#include "../process/trace.h"
#include "../machine/usercopy.h"
#include "../machine/vdso.h"
#include "../machine/warm.h"
#include "../machine/x86.h"
#include "../lib/kr_linux.h"
#include "../sys/table.h"
#include "../local/local.h"
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/time_types.h>
#include <linux/sched.h>
#include <linux/sched/types.h>

#define EXC_BASE (KR_SYS_BASE + KR_SYS_EXC)
#define EXC_END (EXC_BASE + KR_VECTORS * 16)

struct frame {
    u64 error, rip, cs, rflags, rsp, ss;
};

static void to_user_mode(struct kr_task *t) {
    struct kvm_sregs *s = &t->run->s.regs.sregs;
    /* On KVM with VMX or SVM, SYSCALL enters ring 0 (SDM Vol. 2B, SYSCALL). Without these segments the
     * payload would continue in ring 0. The segments are compared at every call, whatever kr_vm_entry says:
     * a payload that jumps to the stub makes any back end look like PVM, and on PVM KVM may emulate a SYSCALL
     * (em_syscall() enters ring 0). So every exit brings the special registers along (kvm_valid_regs), 0.1 to
     * 0.4 us on PVM. */
    if (s->cs.selector != KR_USER_CS || s->cs.dpl != 3 || s->ss.dpl != 3 || s->ss.selector != KR_USER_SS ||
        !s->cs.l) {
        kr_x86_user_segments(s);
        t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS;
    }
}

/* Whether a thread can give its vCPU away during this call: the calls that may block, except the clone
 * family, which copies the state of the vCPU. */
static int may_park(u64 nr) {
    const struct kr_sys_row *row = kr_sys_row(nr);
    return row && (row->attr & KR_CALL_BLOCK) && nr != __NR_vfork && nr != __NR_clone && nr != __NR_clone3;
}

static void system_call(struct kr_task *t) {
    struct kvm_regs *r = kr_regs(t);
    if (t->local.possible && kr_local_is_own(r->rcx))
        kr_local_returns(t);
    t->nr = r->rax;
    t->args[0] = r->rdi;
    t->args[1] = r->rsi;
    t->args[2] = r->rdx;
    t->args[3] = r->r10;
    t->args[4] = r->r8;
    t->args[5] = r->r9;
    r->rip = r->rcx;
    r->rflags = (r->r11 & KR_FLAGS_USER) | KR_FLAGS_FIXED;
    t->regs_replaced = 0;
    to_user_mode(t);
    if (kr_share_scarce(t) && may_park(t->nr))
        kr_share_release(t);
    if (t->local.possible)
        kr_local_call(t);
    long ret = kr_syscall(t);
    if (ret != -KR_ERESTART)
        t->resumed = 0;
    kr_window_served(&t->window, t->nr);
    /* A fork gives a new vCPU; a vCPU that was given away is acquired again at the run loop. */
    r = kr_regs(t);
    if (!t->regs_replaced) {
        if (ret == -KR_ERESTART) {
            r->rax = t->nr;
            r->rip -= 2; /* SYSCALL is two bytes */
        } else {
            r->rax = (u64)ret;
        }
    }
    if (t->local.possible)
        kr_local_served(t, t->nr, ret);
    t->nr = ~0ULL;
}

/* Whether the exception is that of a patched site's second instruction (machine/site.h); then it is served. */
static int fault_in_site(struct kr_task *t, u32 vec) {
    struct kvm_regs *r = kr_regs(t);
    if (vec != VEC_GP && vec != VEC_UD)
        return 0;
    switch (kr_site_middle(&t->mm->vm, vec, r)) {
    case KR_MIDDLE_NO:
        return 0;
    case KR_MIDDLE_CALL:
        system_call(t);
        return 1;
    case KR_MIDDLE_RETRY:
        to_user_mode(t);
        return 1;
    case KR_MIDDLE_DONE:
        break;
    }
    to_user_mode(t);
    if (r->rflags & 0x100) /* TF: the instruction is a step */
        kr_exception(t, VEC_DB, 0);
    return 1;
}

/* Whether the exception came in the code for completed calls (guest/engine.S); then it is served. The call goes on
 * as an exit, so that a bad pointer of the payload's gets the kernel's own answer. A page that the tables lack is filled
 * in for the next call. The payload cannot have a frame with a RIP of that code. */
static int fault_in_local_code(struct kr_task *t, u32 vec, u64 error) {
    u64 addr = t->run->s.regs.sregs.cr2;
    int sites = t->mm->vm.sites != NULL;
    if (sites && vec == VEC_DB)
        kr_site_stepped(&t->mm->vm, kr_regs(t));
    enum kr_place place = kr_local_fault(t);
    if (place == KR_PLACE_ELSE || place == KR_PLACE_OUT)
        return sites && fault_in_site(t, vec);
    if (vec == VEC_PF)
        kr_mm_fault(t->mm, addr, error);
    if (place == KR_PLACE_AFTER)
        to_user_mode(t);
    else
        system_call(t);
    return 1;
}

/* Serves an exception: the frame lies on the exception stack of this vCPU. */
static void from_exception(struct kr_task *t, u32 vec) {
    struct kvm_regs *r = kr_regs(t);
    const u8 *top = (vec == VEC_DF ? t->vcpu->df : t->vcpu->ist) + KR_PAGE;
    struct frame f;
    memcpy(&f, top - sizeof f, sizeof f);
    u64 error = KR_VECTORS_WITH_ERROR >> vec & 1 ? f.error : 0;
    if (f.rip >= KR_SYS_BASE && f.rip == t->vcpu->stub && vec == VEC_GP &&
        kr_vm_entry(&t->mm->vm) != KR_ENTRY_RING3) {
        /* SYSCALL left the vCPU in ring 3, and the OUT of the stub was refused: this back end is PVM. rcx,
         * r11 and the other registers are those of the call. */
        kr_lock(&t->mm->lock);
        kr_vm_open_port(&t->mm->vm);
        kr_warm_fork(t->mm, f.rsp); /* warms what was mapped before the back end was known */
        kr_unlock(&t->mm->lock);
        r->rsp = f.rsp;
        system_call(t);
        return;
    }
    r->rip = f.rip;
    r->rsp = f.rsp;
    r->rflags = (f.rflags & KR_FLAGS_USER) | KR_FLAGS_FIXED;
    if (t->local.possible && fault_in_local_code(t, vec, error))
        return;
    to_user_mode(t);
    if (f.rip >= KR_WINDOW_END) {
        /* The payload jumped into the monitor's pages of the guest, or faulted there. The payload gets what a
         * jump to an unmapped address gives. */
        if (vec == VEC_PF || vec == VEC_GP) {
            t->cr2 = f.rip;
            kr_signal_force(t, SIGSEGV, vec == VEC_PF ? SEGV_MAPERR : SI_KERNEL, vec == VEC_PF ? f.rip : 0,
                            vec, error);
            return;
        }
    }
    kr_exception(t, vec, error);
}

/* Ring 3 executed an I/O instruction itself on the only open port (PVM). The payload gets #GP, as for every
 * other port. KVM has the access pending and would complete an IN into the registers of the signal frame.
 * Therefore KVM completes the access here, and the registers are restored. */
static void forged(struct kr_task *t) {
    struct kvm_regs was = *kr_regs(t);
    u8 b[3] = {0, 0, 0};
    t->run->immediate_exit = 1;
    kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
    t->run->immediate_exit = 0;
    *kr_regs(t) = was;
    to_user_mode(t);
    /* RIP lies behind an OUT to port 0x7e, and at or behind an IN, depending on the back end. */
    kr_copy_in(b, was.rip - 2, 3);
    if (b[2] == 0xe4 || b[2] == 0xe5 || b[2] == 0xec || b[2] == 0xed || (b[2] >= 0x6c && b[2] <= 0x6f))
        ; /* RIP lies at the instruction */
    else if (b[0] >= 0xe4 && b[0] <= 0xe7 && b[1] == KR_PORT)
        kr_regs(t)->rip = was.rip - 2;
    else if ((b[1] >= 0xec && b[1] <= 0xef) || (b[1] >= 0x6c && b[1] <= 0x6f))
        kr_regs(t)->rip = was.rip - 1;
    kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, VEC_GP, 0);
}

static void decode(struct kr_task *t, int is_out);

/* Without memory for the probe (RLIMIT_AS) it is not known which page the host refuses. An access that it refuses so
 * many times is one that it refuses for good, and the payload gets the signal of an address that is not known. */
#define BLIND_TRIES 1000

/* Serves an exit for a page that the page tables allow but the host refuses: a file truncated under a
 * mapping, or a race with munmap. KVM names the page since Linux 6.8. On older kernels the monitor finds it
 * by running on from an empty page table (machine/probe.c). */
static void host_fault(struct kr_task *t) {
    u64 addr;
    if (t->run->exit_reason == KVM_EXIT_MEMORY_FAULT) {
        struct {
            u64 flags, gpa, size;
        } mf;
        memcpy(&mf, &t->run->hw, sizeof mf);
        u64 n = (mf.gpa - KR_CHUNK_GPA) >> KR_CHUNK_SHIFT;
        if (mf.gpa < KR_CHUNK_GPA || n >= t->mm->vm.next_chunk)
            kr_die("host fault at guest-physical 0x%lx outside every chunk", (unsigned long)mf.gpa);
        addr = ((u64)t->mm->vm.chunk_list[n].at << KR_CHUNK_SHIFT) + (mf.gpa & (KR_CHUNK_SIZE - 1));
    } else {
        if (t->local.possible) /* the probe knows no RIP of that code */
            kr_local_changed(t);
        addr = kr_probe_fault(t);
    }
    if (addr == KR_PROBE_BLIND) {
        t->blind = kr_regs(t)->rip == t->blind_rip ? t->blind + 1 : 0;
        t->blind_rip = kr_regs(t)->rip;
        if (t->blind >= BLIND_TRIES)
            kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, VEC_PF, 4);
        return;
    }
    if (!addr) { /* the host refuses no page now; the probe may have reached a stub */
        if (t->local.possible)
            kr_local_fault(t);
        if (kr_regs(t)->rip >= KR_WINDOW_END)
            decode(t, 0);
        return;
    }
    int code, sig = kr_mm_refused(t->mm, addr, &code);
    if (sig) { /* the page lies behind the end of a file, or in a region of MADV_GUARD_INSTALL */
        t->cr2 = addr;
        kr_signal_force(t, sig, code, addr, VEC_PF, 4);
    }
}

static void decode(struct kr_task *t, int is_out) {
    struct kvm_regs *r = kr_regs(t);
    u64 rip = r->rip;
    if (rip < KR_WINDOW_END) {
        if (is_out)
            forged(t);
        return;
    }
    if (rip >= t->vcpu->stub && rip <= t->vcpu->stub + 2) {
        if (is_out)
            kr_window_call(&t->window, &t->mm->window);
        if (kr_vm_entry(&t->mm->vm) == KR_ENTRY_UNKNOWN && (t->run->s.regs.sregs.cs.dpl == 0))
            kr_vm_entry_set(&t->mm->vm, KR_ENTRY_RING0);
        system_call(t);
    } else if (rip >= EXC_BASE && rip < EXC_END) {
        from_exception(t, (u32)((rip - EXC_BASE) >> 4));
    } else if (is_out) { /* bytes of the monitor's code that ring 3 has executed as another instruction */
        forged(t);
    } else { /* beyond the window, but not at a stub: a jump to an unmapped address */
        to_user_mode(t);
        kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, VEC_GP, 0);
    }
}

/* KVM_RUN returns EAGAIN while KVM cannot start its worker thread, which KVM does in the first run of a VM.
 * There are two reasons:
 *
 * - SCHED_DEADLINE: a thread of this policy may not fork unless its children get the default policy (sched(7)).
 *   The flag SCHED_FLAG_RESET_ON_FORK is set for this one run. sched_setattr(2) refuses the flag to a thread
 *   without the privilege to ask for the policy itself.
 * - The limit of threads is reached (pids.max, RLIMIT_NPROC). The monitor waits for a while, because the fork or
 *   execve of the payload that led here has already succeeded, and a limit is often full for a moment only. If the
 *   limit is below what the user has, nothing ever ends the wait, nor that of the parent: so the program ends with
 *   SIGKILL, as in fork_child() in clone.c.
 *
 * w: zero when the wait begins. */
#define WORKER_PATIENCE 3000000000ULL /* ns */
struct worker_wait {
    u32 tries;
    u64 since;
};

static void without_worker(struct kr_task *t, struct worker_wait *w) {
    struct sched_attr a;
    if (kr_sys4(__NR_sched_getattr, 0, (u64)&a, sizeof a, 0) >= 0 && a.sched_policy == SCHED_DEADLINE &&
        !(a.sched_flags & SCHED_FLAG_RESET_ON_FORK)) {
        a.size = sizeof a;
        a.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
        long r = kr_sys3(__NR_sched_setattr, 0, (u64)&a, 0);
        if (r < 0) {
            kr_log("KVM's worker thread: SCHED_DEADLINE forbids it, and sched_setattr gives errno %ld; set "
                   "SCHED_FLAG_RESET_ON_FORK or keep CAP_SYS_NICE",
                   -r);
            kr_die_signal(t, SIGKILL);
        }
        t->run->immediate_exit = 1;
        kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
        t->run->immediate_exit = 0;
        a.sched_flags &= ~(u64)SCHED_FLAG_RESET_ON_FORK;
        kr_sys3(__NR_sched_setattr, 0, (u64)&a, 0);
        return;
    }
    if (!w->tries++) {
        w->since = kr_now();
        kr_log("KVM's worker thread: no room for it (pids limit of the cgroup, or RLIMIT_NPROC); waiting");
    } else if (kr_now() - w->since > WORKER_PATIENCE) {
        kr_log(
            "KVM's worker thread: no room for it; raise the limit of processes (pids limit of the cgroup, or "
            "RLIMIT_NPROC)");
        kr_die_signal(t, SIGKILL);
    }
    struct __kernel_timespec pause = {0, KR_MIN(w->tries, 20) * 1000000L};
    kr_call_intr(__NR_nanosleep, (u64)&pause, 0, 0, 0, 0, 0);
}

/* Whether KVM can enter the guest there. With VMX KVM_RUN fails if RIP is not canonical (SDM vol. 3, "Checks on Guest
 * RIP, RFLAGS, and SSP"); with SVM and PVM the next instruction raises #GP, as natively. The payload chooses RIP by the
 * address of a signal handler, and by RCX if it jumps to the stub. */
static int can_enter(const struct kr_task *t) {
    s64 rip = (s64)t->run->s.regs.regs.rip;
    return rip >> 47 == 0 || rip >> 47 == -1;
}

/* For --count: r is what KVM_RUN returned. */
static enum kr_exit_cause cause_of(const struct kr_task *t, long r) {
    u64 rip = t->run->s.regs.regs.rip;
    enum kr_place place = kr_engine_place(t->vcpu->stub, rip);
    if (r == -EINTR || r == -KR_ERESTART)
        return KR_EXIT_INTERRUPT;
    if (r == -EFAULT)
        return KR_EXIT_HOST_FAULT;
    switch (t->run->exit_reason) {
    case KVM_EXIT_IO:
        return place == KR_PLACE_OUT                  ? KR_EXIT_OUT
               : rip < EXC_BASE || rip >= EXC_END     ? KR_EXIT_OTHER
               : (rip - EXC_BASE) >> 4 == (u64)VEC_PF ? KR_EXIT_PF
                                                      : KR_EXIT_EXCEPTION;
    case KVM_EXIT_IRQ_WINDOW_OPEN:
        return place == KR_PLACE_OUT || place == KR_PLACE_ENTRY ? KR_EXIT_WINDOW : KR_EXIT_WINDOW_LOST;
    case KVM_EXIT_INTR:
        return KR_EXIT_INTERRUPT;
    case KVM_EXIT_MEMORY_FAULT:
        return KR_EXIT_HOST_FAULT;
    default:
        return KR_EXIT_OTHER;
    }
}

static long enter(struct kr_task *t) {
    t->run->kvm_dirty_regs |= KVM_SYNC_X86_REGS;
    t->run->exit_reason = 0;
    t->faults = 0;
    if (t->mm->vm.sites)
        kr_site_enter(&t->mm->vm, kr_regs(t));
    t->run->request_interrupt_window =
        kr_vm_entry(&t->mm->vm) == KR_ENTRY_RING3 && kr_window_ask(&t->window, &t->mm->window);
    long r = kr_call_intr(__NR_ioctl, (u64)t->vcpu->fd, KVM_RUN, 0, 0, 0, 0);
    if (kr_trace_on && r != -EAGAIN)
        kr_trace_cause(cause_of(t, r));
    return r;
}

static u32 internal_errors;

/* After KVM_RUN: whether the guest has left its code for completed calls in a way that needs no more than this. */
static int in_local_code(struct kr_task *t) {
    enum kr_place place = kr_local_left(t);
    int io = t->run->exit_reason == KVM_EXIT_IO;
    if (io || (place != KR_PLACE_BEFORE && place != KR_PLACE_AFTER))
        return 0;
    if (t->run->exit_reason == KVM_EXIT_IRQ_WINDOW_OPEN) /* as cause_of() */
        kr_window_lost(&t->window, &t->mm->window);
    if (place == KR_PLACE_AFTER) /* its result is in the registers */
        to_user_mode(t);
    else
        decode(t, 0); /* the exit's RIP is in the registers */
    return 1;
}

/* KVM_RUN has returned 0. */
static void left_guest(struct kr_task *t) {
    switch (t->run->exit_reason) {
    case KVM_EXIT_IO:
        decode(t, 1);
        break;
    case KVM_EXIT_IRQ_WINDOW_OPEN:
        if (kr_regs(t)->rip == t->vcpu->stub)
            kr_window_won(&t->window, &t->mm->window);
        else
            kr_window_lost(&t->window, &t->mm->window);
        __attribute__((fallthrough));
    case KVM_EXIT_INTR:
        if (kr_regs(t)->rip >= KR_WINDOW_END)
            decode(t, 0);
        break;
    case KVM_EXIT_INTERNAL_ERROR: /* KVM cannot emulate the instruction: the payload gets #UD */
        internal_errors++;
        if (kr_regs(t)->rip >= KR_WINDOW_END)
            kr_die("KVM internal error %u in the monitor's stub", t->run->internal.suberror);
        kr_log("KVM internal error %u at rip 0x%lx", t->run->internal.suberror,
               (unsigned long)kr_regs(t)->rip);
        kr_signal_force(t, SIGILL, ILL_ILLOPN, kr_regs(t)->rip, VEC_UD, 0);
        break;
    case KVM_EXIT_MEMORY_FAULT:
        if (kr_regs(t)->rip >= KR_WINDOW_END)
            decode(t, 0);
        else
            host_fault(t);
        break;
    case KVM_EXIT_SHUTDOWN:
        kr_die("triple fault in the guest (last rip 0x%lx)", (unsigned long)kr_regs(t)->rip);
    default:
        kr_die("KVM exit %u (rip 0x%lx, hardware reason 0x%lx)", t->run->exit_reason,
               (unsigned long)kr_regs(t)->rip,
               (unsigned long)t->run->fail_entry.hardware_entry_failure_reason);
    }
}

void kr_run(struct kr_task *t) {
    struct worker_wait wait = {0, 0};
    t->runs = 1;
    if (t->ask_early)
        __atomic_or_fetch(&t->asked, KR_ASKED_QUESTION, __ATOMIC_SEQ_CST);
    for (;;) {
        if (t->local.site)
            kr_local_patch(t);
        if (!t->vcpu || kr_share_wanted(t)) { /* a thread has no vCPU: the threads take turns */
            kr_share_release(t);
            kr_share_acquire(t);
        }
        if (t->asked & KR_ASKED_STAND)
            kr_quiesce_stand(t);
        if (t->asked & KR_ASKED_QUESTION)
            kr_ask_serve(t);
        if (t->sig_caught || t->held)
            kr_signal_deliver(t);
        if (!can_enter(t)) {
            kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, VEC_GP, 0);
            continue;
        }
        if (t->local.possible)
            kr_local_arm(t);
        if (++t->exits >= KR_BOARD_EVERY)
            kr_board_count(t);
        long r = enter(t);
        if ((r == -EAGAIN || r == -KR_ERESTART) && t->local.holder) /* the guest has not been entered */
            kr_sockets_left(t);
        if (r == -EAGAIN) {
            without_worker(t, &wait);
            continue;
        }
        wait.tries = 0;
        if (r == -EINTR)
            kr_cpu_drop_fault(t);
        if (t->local.possible && r != -KR_ERESTART && in_local_code(t))
            continue;
        if (r == -EINTR || r == -KR_ERESTART) {
            if (kr_regs(t)->rip >= KR_WINDOW_END && r != -KR_ERESTART)
                decode(t, 0);
            continue;
        }
        if (r == -EFAULT) {
            if (kr_regs(t)->rip >= KR_WINDOW_END)
                decode(t, 0);
            else
                host_fault(t);
            continue;
        }
        if (r < 0)
            kr_die("KVM_RUN: errno %ld", -r);
        kr_vdso_tick(t->mm);
        left_guest(t);
    }
}
