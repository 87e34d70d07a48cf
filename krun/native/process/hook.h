/* SPDX-License-Identifier: Apache-2.0
 *
 * startContainer hooks: programs of the container. Each runs in a VM of its own, before the first instruction
 * of the payload.
 */
#ifndef KR_HOOK_H
#define KR_HOOK_H

#include "../machine/vmm.h"

/* Runs all hooks in order, each with the state on stdin and with its timeout. 0; else with a line for the user in why[size]: -errno,
 * or the positive wait status of a hook that has failed. */
long kr_hooks_run(struct kr_task *t, char *why, size_t size);

#endif
