/* SPDX-License-Identifier: Apache-2.0
 *
 * Stopping all threads of a process: quiesce.h has the protocol, the state and the lock.
 */
#include "quiesce.h"
#include "resume.h"
#include "../machine/mm.h"
#include <asm/signal.h>
#include <linux/futex.h>

#define RESEND_NS 10000000L /* a kick that was swallowed is sent again after this time */

static void wake(u32 *word, u32 n) { kr_sys3(__NR_futex, word, FUTEX_WAKE_PRIVATE, n); }

void kr_quiesce_kick(struct kr_task *o) {
    siginfo_t si;
    u32 tid = __atomic_load_n(&o->tid, __ATOMIC_ACQUIRE);
    if (!tid) /* the thread is starting and reads `asked` in its first function */
        return;
    memset(&si, 0, sizeof si);
    si.si_signo = SIGBUS;
    si.si_code = SI_QUEUE;
    si.si_value.sival_ptr = (void *)KR_QUIESCE_KICK;
    kr_sys4(__NR_rt_tgsigqueueinfo, kr_sys0(__NR_getpid), tid, SIGBUS, &si);
}

/* Asks every other running thread of the process to stop. Returns their number. Lock: mm->lock. */
static u32 call_in(struct kr_task *t) {
    struct kr_vm *vm = &t->mm->vm;
    u32 missing = 0;
    for (struct kr_task *o = t->mm->tasks; o; o = o->next) {
        if (o == t || o->proc != t->proc || o->standing)
            continue;
        missing++;
        __atomic_or_fetch(&o->asked, KR_ASKED_STAND, __ATOMIC_SEQ_CST);
        kr_quiesce_kick(o);
    }
    if (missing && vm->waiters) { /* a signal does not always end the wait for a vCPU */
        __atomic_add_fetch(&vm->released, 1, __ATOMIC_SEQ_CST);
        wake(&vm->released, 0x7fffffff);
    }
    return missing;
}

static void end_locked(struct kr_proc *p) {
    p->quiesce.by = NULL;
    __atomic_add_fetch(&p->quiesce.rounds, 1, __ATOMIC_SEQ_CST);
    wake(&p->quiesce.rounds, 0x7fffffff);
}

long kr_quiesce(struct kr_task *t, u64 patience) {
    struct kr_proc *p = t->proc;
    u64 until = kr_now() + patience;
    kr_lock(&t->mm->lock);
    while (p->quiesce.by)
        kr_quiesce_stand_locked(t);
    p->quiesce.by = t;
    for (;;) {
        u32 seen = __atomic_load_n(&p->quiesce.arrivals, __ATOMIC_SEQ_CST);
        if (!call_in(t))
            break;
        if (kr_now() > until) {
            end_locked(p);
            kr_unlock(&t->mm->lock);
            return -ETIMEDOUT;
        }
        kr_unlock(&t->mm->lock);
        s64 ts[2] = {0, RESEND_NS};
        kr_sys4(__NR_futex, &p->quiesce.arrivals, FUTEX_WAIT_PRIVATE, seen, ts);
        kr_lock(&t->mm->lock);
    }
    kr_unlock(&t->mm->lock);
    return 0;
}

void kr_quiesce_end(struct kr_task *t) {
    kr_lock(&t->mm->lock);
    end_locked(t->proc);
    kr_unlock(&t->mm->lock);
}

static void arrive(struct kr_task *t) {
    struct kr_proc *p = t->proc;
    t->standing = 1;
    __atomic_add_fetch(&p->quiesce.arrivals, 1, __ATOMIC_SEQ_CST);
    if (p->quiesce.by)
        wake(&p->quiesce.arrivals, 1);
}

/* Ends the stop of this thread. Lock: mm->lock, so that the requester does not count a thread that is about
 * to run. */
static void leave(struct kr_task *t) {
    struct kr_proc *p = t->proc;
    while (p->quiesce.by) {
        u32 seen = __atomic_load_n(&p->quiesce.rounds, __ATOMIC_SEQ_CST);
        kr_unlock(&t->mm->lock);
        kr_sys4(__NR_futex, &p->quiesce.rounds, FUTEX_WAIT_PRIVATE, seen, 0);
        kr_lock(&t->mm->lock);
    }
    t->standing = 0;
    __atomic_and_fetch(&t->asked, ~KR_ASKED_STAND, __ATOMIC_SEQ_CST);
}

void kr_quiesce_stand_locked(struct kr_task *t) {
    if (t->proc->quiesce.by)
        arrive(t);
    leave(t);
}

void kr_quiesce_stand(struct kr_task *t) {
    kr_lock(&t->mm->lock);
    kr_quiesce_stand_locked(t);
    kr_unlock(&t->mm->lock);
}

void kr_quiesce_away(struct kr_task *t) {
    kr_lock(&t->mm->lock);
    arrive(t);
    kr_unlock(&t->mm->lock);
}

void kr_quiesce_back(struct kr_task *t) {
    kr_lock(&t->mm->lock);
    leave(t);
    kr_unlock(&t->mm->lock);
}

void kr_quiesce_join(struct kr_task *t) {
    if (t->proc->quiesce.by)
        t->asked = KR_ASKED_STAND;
}

int kr_quiesce_caught(struct kr_task *t, const siginfo_t *si, struct kr_ucontext *uc) {
    int kick = kr_signal_is_bare(si) ? t->asked & KR_ASKED_STAND
                                     : (si->si_code == SI_QUEUE || si->si_code == SI_TIMER) &&
                                           (u64)si->si_value.sival_ptr == KR_QUIESCE_KICK;
    if (!kick)
        return 0;
    if (t->runs) { /* else the thread reads `asked` when it begins to run */
        t->was_asked = 1;
        kr_ask_interrupted(t, uc);
    }
    return 1;
}
