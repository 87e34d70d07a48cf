/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker and the evaluator of classic BPF programs over struct seccomp_data (seccomp(2); linux/bpf_common.h). Pure: the
 * functions read their arguments only. insns is a struct sock_filter[n] in monitor memory.
 */
#ifndef KR_EVALUATE_H
#define KR_EVALUATE_H

#include "../lib/kr_lib.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

/* Checks a program as the kernel does before it installs one: 1 to BPF_MAXINSNS instructions, known opcodes, jumps inside the
 * program, a return at the end, no load of scratch memory before a store. 0 or -EINVAL. */
int kr_bpf_check(const void *insns, u32 n);

/* Runs a checked program. data: a struct seccomp_data. Returns the program's value, SECCOMP_RET_* with data. */
u32 kr_bpf_run(const void *insns, u32 n, const void *data);

/* Whether a checked program allows call number nr with any arguments. The function follows the program as long as the program
 * reads only the number and the architecture of the call (seccomp_is_const_allow() in kernel/seccomp.c). 1, or 0: the program
 * does not allow the call, or must be run to find out. */
int kr_bpf_allows(const void *insns, u32 n, u32 nr);

#endif
