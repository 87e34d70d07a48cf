/* SPDX-License-Identifier: Apache-2.0
 *
 * A mutex on a private futex (futex(2)). It works among threads and among processes made with CLONE_VM, because they
 * share the address space. A signal interrupts only the wait; kr_lock then waits on. Not recursive. Lock order:
 * monitor/state.def.
 *
 * SIGKILL can end a process that shares the address space while it holds a lock. So the lock's word names its holder,
 * from the instruction on that takes the lock. A waiter that has waited for a while asks whether the holder still
 * lives (kr_holder_gone). The waiter that takes the lock from a dead holder is its heir: it completes what the dead
 * holder has left half done (kr_state_heir), and then holds the lock like everybody else. A holder that is stopped is
 * continued (kr_holder_goad).
 *
 * The word: bits 0-1: 0 free, 1 held, 2 held and somebody waits. Bits 2-63: the holder (kr_holder). No two holders
 * whose lives a wait could confuse have the same bits: with the thread's number stands the time of its birth, in
 * steps that are no longer than the shortest wait.
 */
#ifndef KR_LOCK_H
#define KR_LOCK_H

#include <linux/futex.h>
#include "offsets.h"
#include "kr_sys.h"

struct kr_lock {
    u64 word;
};

#define KR_LOCK_HELD 1u
#define KR_LOCK_WAITED 2u
#define KR_LOCK_STATE 3u

/* A holder: the numbers of its thread and of its process in the pid namespace of the monitor's procfs (0: unknown, such a
 * holder never counts as dead), and CLOCK_BOOTTIME at its start in ticks of 10 ms, which the thread has read itself. The word has
 * the low 18 bits of the ticks, 43 minutes. */
#define KR_HOLDER_TICK 10000000ULL /* ns */
#define KR_HOLDER_NUMBER 0x3fffffu /* PID_MAX_LIMIT - 1 */
#define KR_HOLDER_BORN 0x3ffffULL
static inline u64 kr_holder(u32 tid, u32 pid, u64 born) {
    return born << 46 | (u64)(pid & KR_HOLDER_NUMBER) << 24 | (u64)(tid & KR_HOLDER_NUMBER) << 2;
}
static inline u32 kr_holder_tid(u64 word) { return (u32)(word >> 2) & KR_HOLDER_NUMBER; }
static inline u32 kr_holder_pid(u64 word) { return (u32)(word >> 24) & KR_HOLDER_NUMBER; }

/* The latest time until `now` (ticks) that has the word's bits: never earlier than the true one. */
static inline u64 kr_holder_born(u64 word, u64 now) { return now - ((now - (word >> 46)) & KR_HOLDER_BORN); }

#ifndef KR_HOSTED
/* The calling thread as a holder: kr_task.holder. */
static inline u64 kr_lock_self(void) {
    u64 self;
    __asm__ volatile("mov %%fs:%c1, %0" : "=r"(self) : "i"(KR_TASK_HOLDER));
    return self;
}
#else
extern __thread u64 kr_test_holder;
static inline u64 kr_lock_self(void) { return kr_test_holder; }
#endif

/* Waits for the lock, which somebody holds (kr_lock.c). */
void kr_lock_wait(struct kr_lock *l, u64 self);
/* Wakes one thread that waits. */
void kr_lock_wake(struct kr_lock *l);

static inline void kr_lock(struct kr_lock *l) {
    u64 is = 0, self = kr_lock_self();
    if (!__atomic_compare_exchange_n(&l->word, &is, self | KR_LOCK_HELD, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        kr_lock_wait(l, self);
}

static inline void kr_unlock(struct kr_lock *l) {
    if (__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) & KR_LOCK_WAITED)
        kr_lock_wake(l);
}

/* Gives back the lock if `holder` (kr_lock_self of the thread that took it) has it. Another thread may call it, if
 * that thread cannot take the lock again meanwhile. */
static inline void kr_unlock_of(struct kr_lock *l, u64 holder) {
    u64 word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
    while (word && (word & ~(u64)KR_LOCK_STATE) == holder)
        if (__atomic_compare_exchange_n(&l->word, &word, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
            if (word & KR_LOCK_WAITED)
                kr_lock_wake(l);
            return;
        }
}

/* In a fork child: frees the lock. Its holder is the thread that forked, or one that does not exist here. */
static inline void kr_lock_init(struct kr_lock *l) { l->word = 0; }

#endif
