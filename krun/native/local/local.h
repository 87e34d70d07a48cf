/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that code of the guest's completes without an exit (guest/engine.S). The monitor prepares the answers before
 * it enters the guest, and learns after it what was done.
 *
 * The rule of exactness: an answer that was true at the process's last exit may be given until its next exit.
 *
 * kr_local_arm and kr_local_left belong to the run loop: each KVM_RUN stands between them.
 */
#ifndef KR_LOCAL_H
#define KR_LOCAL_H

#include "../machine/callpage.h"
#include "../machine/mm.h"
#include "../process/above.h"
#include "../process/observe.h"
#include "../table/rows.h"

/* All but kr_local_changed and kr_local_after_fork are called on the thread itself, while it has a vCPU, and only if
 * t->local.possible is set. */

/* ---- local/sockets.c: see sockets.h ---- */

void kr_sockets_enter(struct kr_task *t);
void kr_sockets_left(struct kr_task *t);
void kr_sockets_call(struct kr_task *t);
void kr_sockets_served(struct kr_task *t, u64 nr, long ret);
u32 kr_local_sockets(struct kr_task *t, struct kr_fact_page *f);
/* Around a fork (monitor/state.def). */
void kr_sockets_before_fork(struct kr_mm *mm);
void kr_sockets_fork_parent(struct kr_mm *mm);
void kr_sockets_after_fork(struct kr_task *t);

/* ---- local/local.c ---- */

/* Decides what may be completed, if something has changed since it was decided last (t->local.generation). Before
 * KVM_RUN. */
void kr_local_decide(struct kr_task *t);
static inline void kr_local_arm(struct kr_task *t) {
    if (__atomic_load_n(&t->local.generation, __ATOMIC_ACQUIRE) != t->local.decided ||
        kr_observe_word() != t->local.watch)
        kr_local_decide(t);
    if (t->mm->sockets)
        kr_sockets_enter(t);
}

/* After KVM_RUN has entered the guest: takes what the guest's code has done into account. If it was at work, the
 * registers become those of the exit (places ENTRY, BEFORE; RIP is the exit's) or those after the call (AFTER). So
 * nobody else sees a RIP of that code. No repair if KVM has an I/O instruction pending: only the exit's is right. */
enum kr_place kr_local_left(struct kr_task *t);
/* Only the repair: after an exception, once its frame is in the registers, and after the probe. */
enum kr_place kr_local_fault(struct kr_task *t);

/* The call t->nr begins, which came by an exit. */
static inline void kr_local_call(struct kr_task *t) {
    if (t->local.holder)
        kr_sockets_call(t);
}
/* The call nr has been served by an exit, with the result ret. The thread may have no vCPU. */
void kr_local_served(struct kr_task *t, u64 nr, long ret);

/* Called in a fork child, and for the first task of a CLONE_VM child: nothing of the parent's counts. */
void kr_local_after_fork(struct kr_task *t);

/* Fills in what the ways need: the numbers, and which calls may be completed. Returns the ways (t->local.ways). */
u32 kr_local_facts(struct kr_task *t, struct kr_fact_page *f);

/* ---- local/actions.c ---- */

/* The same for rt_sigaction(2), behind kr_local_facts. */
u32 kr_local_actions(struct kr_task *t, struct kr_fact_page *f);
/* Takes the actions that the payload has set inside the guest. */
void kr_local_take_actions(struct kr_task *t, volatile struct kr_call_page *c);

/* ---- local/sites.c ---- */

/* Sets the sample's counter, if it has run out. */
void kr_local_sample(struct kr_task *t);
/* A call that could have been completed has been served by an exit: counts its site. The thread may have no vCPU. */
void kr_local_hot(struct kr_task *t, u64 nr);
/* Patches the site t->local.site, if that is possible. Called in the run loop, without a lock. The thread may have no vCPU. */
void kr_local_patch(struct kr_task *t);
/* A call whose rcx lies in the vCPU's own part of the address space (guest/patched.h): gives it the return address and the
 * flags of the call. */
void kr_local_returns(struct kr_task *t);
static inline int kr_local_is_own(u64 addr) { return addr - KR_OWN_BASE < KR_OWN_END - KR_OWN_BASE; }

#endif
