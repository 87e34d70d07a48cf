/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the layers above that machine/ calls. No other call goes up from machine/.
 */
#ifndef KR_MACHINE_ABOVE_H
#define KR_MACHINE_ABOVE_H

#include "vmm.h"

/* ---- process/quiesce.c ---- */

/* kr_quiesce_stand for a caller that holds mm->lock. The lock is given up while t stands, and held again
 * afterwards. */
void kr_quiesce_stand_locked(struct kr_task *t);

/* Takes o, another thread of the calling process, out of the guest. The payload does not notice. Lock: mm->lock. */
void kr_quiesce_kick(struct kr_task *o);

/* ---- process/bury.c ---- */

/* Releases the tasks of other processes of t's mm that have ended without a word (SIGKILL, exit_group, execve).
 * short_of: something has run out, so each task is looked at that the kernel does not mark. t: the calling thread's.
 * Lock: mm->lock. */
void kr_bury(struct kr_task *t, int short_of);

#endif
