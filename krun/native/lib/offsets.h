/* SPDX-License-Identifier: Apache-2.0
 * Offsets of struct kr_task used by assembly (static asserts in machine/vmm.h) and of the CPU's own rules. */
#ifndef KR_OFFSETS_H
#define KR_OFFSETS_H

#define KR_TASK_SELF 0x00
#define KR_TASK_SIG_CAUGHT 0x08
#define KR_TASK_CANARY 0x28 /* where gcc's stack protector looks: %fs:0x28 */

#endif
