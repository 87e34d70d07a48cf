/* SPDX-License-Identifier: Apache-2.0
 *
 * Between create and the first instruction of the payload: the wait for start, and the startContainer hooks, programs of the
 * container that run in a VM of their own each.
 */
#ifndef KR_HOOK_H
#define KR_HOOK_H

#include "../machine/vmm.h"

/* Waits for the byte in the start FIFO fd. 0; the number of a signal that ends the process first; or -errno. */
long kr_start_wait(struct kr_task *t, int fd);

/* Runs all hooks in order, each with the state on stdin and with its timeout. 0; else with a line for the user in why[size]: -errno,
 * or the positive wait status of a hook that has failed. */
long kr_hooks_run(struct kr_task *t, char *why, size_t size);

#endif
