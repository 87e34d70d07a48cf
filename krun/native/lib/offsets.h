/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets in struct kr_task that assembly and the compiler use. machine/vmm.h compares them with the structure.
 */
#ifndef KR_OFFSETS_H
#define KR_OFFSETS_H

#define KR_TASK_SELF 0x00
#define KR_TASK_SIG_CAUGHT 0x08
#define KR_TASK_HOLDER 0x10
#define KR_TASK_CANARY 0x28 /* where gcc's stack protector looks: %fs:0x28 */

#endif
