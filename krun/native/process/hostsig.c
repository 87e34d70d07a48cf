/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's signal handler. It stores one caught signal in task->info and blocks all signals in the
 * interrupted context, so that no second signal is caught before the payload's frame is built (signal.c). The
 * handler runs on the interrupted thread and touches only the task of this thread.
 */
#include "resume.h"
#include "../lib/kr_guard.h"
#include "../machine/mm.h"
#include "quiesce.h"
#include "signal.h"
#include "../machine/usercopy.h"
#include <asm/signal.h>
#include "above.h"
#include "hostsig.h"
#include "sigframe.h"

extern const char kr_intr_begin[], kr_intr_syscall[], kr_intr_restart[];
extern const char kr_copy_begin[], kr_copy_end[], kr_copy_fault[], kr_str_begin[], kr_str_end[],
    kr_cas_begin[], kr_cas_end[], kr_add_begin[], kr_add_end[], kr_load_begin[], kr_load_end[],
    kr_touch_begin[], kr_touch_end[];

static int in(u64 rip, const char *a, const char *b) { return rip >= (u64)a && rip < (u64)b; }

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* Whether SIGSEGV or SIGBUS may be a fault of the interrupted instruction. A positive si_code is no proof: a
 * process may queue any code to itself, and a child's exit signal has CLD_EXITED. Therefore the processor's
 * record of the last fault must agree. The instruction after a SYSCALL does not count: sent signals are
 * delivered there, and no fault happens between the two.
 *
 * This is no proof, either: the record stays from one fault to the next, and a child's exit signal has the child's pid
 * where a fault has its address. */
static int looks_like_fault(const siginfo_t *si, const struct kr_sigcontext *mc) {
    const u8 *next = (const u8 *)mc->rip;
    if (si->si_code <= 0)
        return 0;
    if (si->si_code == SI_KERNEL ? mc->trapno == 14 : mc->trapno != 14 || (u64)si->si_addr != mc->cr2)
        return 0;
    return !(mc->rip >= (u64)__ehdr_start + 2 && mc->rip < (u64)etext && next[-2] == 0x0f &&
             next[-1] == 0x05);
}

/* Ends the monitor after a fault of its own. Without a log the payload can read
 * the last words, and a process that fork made has its parent's addresses. So the words name no address of the monitor's:
 * only the offset in its file, and for memory of its own the offset in the page. */
__noreturn static void die_of(int sig, u64 rip, u64 addr) {
    int own = addr >= KR_WINDOW_END;
    kr_die("signal %d in the monitor at +0x%lx (%s 0x%lx)", sig,
           in(rip, __ehdr_start, etext) ? (unsigned long)(rip - (u64)__ehdr_start) : 0UL,
           own ? "memory of its own, in its page at" : "address",
           (unsigned long)(own ? addr & (KR_PAGE - 1) : addr));
}

/* A fault of the monitor's own instruction comes again as soon as the handler returns. A signal that was sent does not:
 * one that pends at that moment may interrupt the same instruction once more, but not every time. */
#define FAULTS_TO_DIE 100

static void count_fault(struct kr_task *t, int sig, u64 rip, u64 addr) {
    if (t->fault_rip != rip)
        t->faults = 0;
    t->fault_rip = rip;
    if (++t->faults < FAULTS_TO_DIE)
        return;
    die_of(sig, rip, addr);
}

static void hold(struct kr_task *t, int sig, const siginfo_t *si) {
    if (t->held & KR_SIGBIT(sig)) /* of several that wait the first stays (legacy_queue() in the kernel) */
        return;
    t->held |= KR_SIGBIT(sig);
    t->held_info[sig == SIGBUS] = *si;
}

__attribute__((used)) void kr_host_handler(int sig, siginfo_t *si, void *context) {
    struct kr_ucontext *uc = context;
    kr_guard_open(); /* the kernel has closed the monitor's memory, the task included; sigreturn restores the state of before */
    struct kr_task *t = kr_self();
    u64 rip = uc->mc.rip;
    if (sig == SIGBUS && (kr_ask_caught(t, si, uc) || kr_quiesce_caught(t, si, uc)))
        return;
    if (sig == SIGBUS && kr_queue_tick(t, si)) {
        kr_ask_interrupted(t, uc);
        return;
    }
    if (sig == SIGSEGV || sig == SIGBUS) {
        if (looks_like_fault(si, &uc->mc)) {
            if (in(rip, kr_copy_begin, kr_copy_end) || in(rip, kr_str_begin, kr_str_end) ||
                in(rip, kr_cas_begin, kr_cas_end) || in(rip, kr_add_begin, kr_add_end) ||
                in(rip, kr_load_begin, kr_load_end)) {
                uc->mc.rip = (u64)kr_copy_fault;
                return;
            }
            if (in(rip, kr_touch_begin, kr_touch_end)) {
                uc->mc.rip = (u64)kr_touch_end;
                uc->mc.rax = (u64)sig;
                return;
            }
            count_fault(t, sig, rip, (u64)si->si_addr);
        }
        /* Another process or thread has sent the signal. The host's disposition is always the monitor's, so
         * the monitor applies the payload's disposition: a default action at the run loop
         * (kr_signal_deliver), because the thread may hold locks here. */
        u64 handler = __atomic_load_n(&t->proc->action[sig].handler, __ATOMIC_RELAXED);
        int blocked = (t->sigmask & KR_SIGBIT(sig)) != 0;
        /* A signal that is blocked waits even if it is ignored (sig_ignored() in the kernel). */
        if (handler == (u64)SIG_IGN && !blocked)
            return;
        if (blocked || t->sig_caught) {
            hold(t, sig, si);
            return;
        }
    }
    t->info = *si;
    t->sig_caught = 1;
    uc->mask = KR_HOST_BLOCK_ALL;
    /* The call is not yet in the kernel, or would be restarted: it is given up (lib/syscall.S). */
    if (rip >= (u64)kr_intr_begin && rip <= (u64)kr_intr_syscall)
        uc->mc.rip = (u64)kr_intr_restart;
}

/* The kernel requires a restorer on x86-64. */
__asm__(".text\n"
        ".globl kr_host_restorer\n"
        "kr_host_restorer:\n"
        "    mov $15, %eax\n"
        "    syscall\n");
