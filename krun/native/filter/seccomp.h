/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of the OCI profile and the filters that the payload installs (seccomp(2),
 * prctl(PR_SET_SECCOMP)): classic BPF over struct seccomp_data. They are checked as the kernel checks them,
 * and evaluated in dispatch before any host call is made.
 */
#ifndef KR_SECCOMP_H
#define KR_SECCOMP_H

#include "../process/above.h"

/* A filter, and behind it the older ones. Immutable except for a cache; references are counted. */
struct kr_seccomp;

/* Filters belong to a task, as on Linux: a filter that a thread installs binds this thread and the tasks that
 * it makes later. Code that serves a call for another thread passes that thread's task.
 *
 * kr_seccomp_add adds a program of n instructions (monitor memory) to the filters of t. flags:
 * SECCOMP_FILTER_FLAG_*, known flags only; NEW_LISTENER: the filter of the OCI profile with an agent. 0; -EINVAL: not a valid program, or strict mode; -ENOMEM: the
 * chain is too long, or no memory. With TSYNC: the id of a thread that cannot follow, or -ESRCH with
 * TSYNC_ESRCH. */
long kr_seccomp_add(struct kr_task *t, const void *insns, u32 n, u32 flags);
/* Strict mode (SECCOMP_SET_MODE_STRICT). */
long kr_seccomp_strict(struct kr_task *t);
/* The verdict of the filters on the call t->nr with t->args at the rip of t: SECCOMP_RET_* with data, the
 * most restrictive one of the chain. USER_NOTIF: an agent is to be asked (sys/notify.c). */
u32 kr_seccomp_check(struct kr_task *t);
/* Whether every filter of t returns SECCOMP_RET_ALLOW for call nr whatever the arguments and the instruction pointer
 * are, so that the call needs no evaluation. 0: a filter must be evaluated, or returns another action (LOG, too,
 * because the monitor writes the log), or strict mode, or a number without a cached verdict. The kernel's copy of
 * the OCI profile (filter/profile.h) then allows the call, too: the copy has the same program, in which it changes
 * no ALLOW. */
int kr_seccomp_allows(struct kr_task *t, u32 nr);

/* The bodies of seccomp(2) and prctl(PR_SET_SECCOMP). A filter needs no_new_privs or CAP_SYS_ADMIN of the
 * thread. */
long kr_seccomp_call(struct kr_task *t, u32 op, u32 flags, u64 ptr);
long kr_seccomp_prctl(struct kr_task *t, u64 mode, u64 ptr);

#endif
