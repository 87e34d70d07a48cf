/* SPDX-License-Identifier: Apache-2.0
 * The OCI profile's filter and those the payload installs (seccomp(2), prctl(PR_SET_SECCOMP)): classic BPF
 * over struct seccomp_data, checked as the kernel checks it, evaluated in dispatch before any host call is
 * made. */
#ifndef KR_SECCOMP_H
#define KR_SECCOMP_H

#include "../process/above.h"

struct kr_seccomp; /* a filter and, behind it, the older ones; immutable but for a cache, counted references
                    */

/* Filters belong to a task, as on Linux: what a thread installs holds for it and for what it makes later.
 * Whoever serves a call for another thread passes that thread's task.
 *
 * Adds a program of n instructions (monitor memory) to t's. flags: SECCOMP_FILTER_FLAG_*, known ones only. 0;
 * -EINVAL (not a program, or strict mode), -ENOMEM (too long a chain, no memory); with TSYNC the id of a
 * thread that cannot follow, or -ESRCH if TSYNC_ESRCH asks for it. */
long kr_seccomp_add(struct kr_task *t, const void *insns, u32 n, u32 flags);
/* Strict mode (SECCOMP_SET_MODE_STRICT). */
long kr_seccomp_strict(struct kr_task *t);
/* The filters' verdict on t->nr/t->args at t's rip: SECCOMP_RET_* with data, most restrictive of the chain.
 */
u32 kr_seccomp_check(struct kr_task *t);

/* seccomp(2) and prctl(PR_SET_SECCOMP): bodies. A filter needs no_new_privs or CAP_SYS_ADMIN of the thread.
 */
long kr_seccomp_call(struct kr_task *t, u32 op, u32 flags, u64 ptr);
long kr_seccomp_prctl(struct kr_task *t, u64 mode, u64 ptr);

#endif
