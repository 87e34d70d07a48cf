/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layers above give to this one: the only calls that go up from machine/.
 */
#ifndef KR_MACHINE_ABOVE_H
#define KR_MACHINE_ABOVE_H

#include "vmm.h"

/* ---- process/quiesce.c ---- */

/* The same as kr_quiesce_stand, with mm->lock held, which is given up meanwhile. */
void kr_quiesce_stand_locked(struct kr_task *t);

#endif
