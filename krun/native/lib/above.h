/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the layers above that lib/ calls. No other call goes up from lib/.
 */
#ifndef KR_LIB_ABOVE_H
#define KR_LIB_ABOVE_H

#include "kr_lock.h"

/* ---- process/holder.c ---- */

/* Whether the holder that the word of a lock names is dead: it executes no further instruction. 0 where that is not
 * certain. */
int kr_holder_gone(u64 word);
/* A wait for this holder has timed out `waits` times. A holder of another process that is stopped is continued, and in the end
 * killed. */
void kr_holder_goad(u64 word, u32 waits);

/* ---- monitor/state.c ---- */

/* Called by the heir of a lock, which it holds: repairs what the lock protects. */
void kr_state_heir(struct kr_lock *l);

#endif
