/* SPDX-License-Identifier: Apache-2.0
 * startContainer hooks: programs of the container, so each runs in a VM of its own, before the payload's
 * first instruction. */
#ifndef KR_HOOK_H
#define KR_HOOK_H

#include "../machine/vmm.h"

/* Runs all in order, state on stdin, with their timeouts. 0, or -errno with a line for the user in why[size].
 */
long kr_hooks_run(struct kr_task *t, char *why, size_t size);

#endif
