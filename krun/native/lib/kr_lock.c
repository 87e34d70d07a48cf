/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for a lock: see kr_lock.h. No state of its own.
 */
#include "kr_lock.h"
#include "above.h"
#include "kr_lib.h"

#define FIRST_WAIT KR_HOLDER_TICK /* ns until the first question whether the holder lives */
#define LONGEST_WAIT 640000000ULL

void kr_lock_wait(struct kr_lock *l, u64 self) {
    u64 patience = FIRST_WAIT, word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
    u32 waits = 0; /* for one holder */
    for (;;) {
        if (!word) {
            /* Others may wait, too. */
            if (__atomic_compare_exchange_n(&l->word, &word, self | KR_LOCK_WAITED, 0, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED))
                return;
            continue;
        }
        u64 waited = (word & ~(u64)KR_LOCK_STATE) | KR_LOCK_WAITED;
        if (word != waited &&
            !__atomic_compare_exchange_n(&l->word, &word, waited, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        s64 time[2] = {0, (s64)patience};
        /* The kernel compares the low half of the word. */
        long r = kr_sys4(__NR_futex, &l->word, FUTEX_WAIT_PRIVATE, (u32)waited, time);
        word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
        if (word != waited)
            waits = 0;
        if (r != -ETIMEDOUT || word != waited)
            continue;
        if (kr_holder_gone(word) && __atomic_compare_exchange_n(&l->word, &word, self | KR_LOCK_WAITED, 0,
                                                                __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            kr_state_heir(l);
            return;
        }
        kr_holder_goad(word, ++waits);
        patience = KR_MIN(2 * patience, LONGEST_WAIT);
    }
}

void kr_lock_wake(struct kr_lock *l) { kr_sys3(__NR_futex, &l->word, FUTEX_WAKE_PRIVATE, 1); }
