/* SPDX-License-Identifier: Apache-2.0
 *
 * A mutex on a private futex (futex(2)). It works among threads and among vfork relatives, because they share the
 * address space. A signal interrupts only the wait; kr_lock then waits on. Not recursive. Lock order:
 * monitor/state.def.
 */
#ifndef KR_LOCK_H
#define KR_LOCK_H

#include <linux/futex.h>
#include "kr_sys.h"

struct kr_lock {
    u32 state; /* 0 free, 1 held, 2 held and somebody waits */
};

static inline void kr_lock(struct kr_lock *l) {
    u32 seen = 0;
    if (__atomic_compare_exchange_n(&l->state, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    if (seen != 2)
        seen = __atomic_exchange_n(&l->state, 2, __ATOMIC_ACQUIRE);
    while (seen) {
        kr_sys4(__NR_futex, &l->state, FUTEX_WAIT_PRIVATE, 2, 0);
        seen = __atomic_exchange_n(&l->state, 2, __ATOMIC_ACQUIRE);
    }
}

static inline void kr_unlock(struct kr_lock *l) {
    if (__atomic_exchange_n(&l->state, 0, __ATOMIC_RELEASE) == 2)
        kr_sys3(__NR_futex, &l->state, FUTEX_WAKE_PRIVATE, 1);
}

/* In a fork child: frees the lock. Its holder is the thread that forked, or one that does not exist here. */
static inline void kr_lock_init(struct kr_lock *l) { l->state = 0; }

#endif
