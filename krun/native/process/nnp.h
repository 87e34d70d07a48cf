/* SPDX-License-Identifier: Apache-2.0
 * no_new_privs and PR_SET_DUMPABLE (prctl(2)) as the payload has them. */
#ifndef KR_NNP_H
#define KR_NNP_H

#include "../machine/vmm.h"

/* no_new_privs as the payload sees it: the host's is always set (a monitor has no use for setuid programs),
 * the payload's own is what the container's config or the payload itself asked for. The thread's, as on
 * Linux; KR_BOOTF_NNP carries it over execve. */
int kr_nnp_view(struct kr_task *t);
void kr_nnp_set(struct kr_task *t); /* prctl(PR_SET_NO_NEW_PRIVS) */
/* Whether the payload's thread may restrict itself (seccomp filters, landlock domains): no_new_privs, or
 * CAP_SYS_ADMIN. Runs on the task's own thread. */
int kr_nnp_or_admin(struct kr_task *t);

/* Makes the monitor's process undumpable (PR_SET_DUMPABLE) at its start, and again after a change of its
 * credentials. */
void kr_undumpable(void);
/* Whether the thread has more than one kind of user or group id: real, effective, for files. Then an execve leaves the program
 * undumpable, whatever its ids are after it (begin_new_exec() and commit_creds() in the kernel). */
int kr_ids_differ(void);
/* Whether the payload's process may be looked at by others of its user (PR_GET_DUMPABLE). */
int kr_dumpable_view(struct kr_task *t);
/* Clears and sets bits of KR_PROCF_DUMPABLE and KR_PROCF_RECORD_LOCKS for t's process and those that share its memory: the first is
 * the memory's (MMF_DUMPABLE in the kernel), the second may be another's. Without a lock; takes mm->lock. */
void kr_common_change(struct kr_task *t, u32 clear, u32 set);
/* Gives c, a process on t's memory that is being made, what t has. Lock: mm->lock. */
void kr_common_inherit(struct kr_task *c, const struct kr_task *t);

#endif
