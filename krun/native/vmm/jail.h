/* SPDX-License-Identifier: Apache-2.0
 * The monitor's own seccomp filter on the host: a list of calls with a reason each, installed before the
 * first guest instruction. Survives execve, so it allows what a monitor needs to start. */
#ifndef KR_JAIL_H
#define KR_JAIL_H

#include "bpf.h"
#include "vmm.h"

/* Installs the filters unless an ancestor did (KR_BOOTF_JAILED): the profile's (vmm/profile.h), then the
 * jail. 0, or -errno with what was attempted in *why. Sets no_new_privs for the host and remembers in the
 * task what the payload is to see of it. Precondition: one thread, t's. */
int kr_jail_install(struct kr_task *t, const char **why);

/* Whether this process is under the filters: its successors are, too. */
int kr_jailed(void);

/* The jail's program (pure, but for the number of the monitor's file): what kr_jail_install installs. */
void kr_jail_build(struct kr_bpf *p);

/* seccomp(2) for the calling thread. 0 or -errno; -E2BIG: the program did not fit into its buffer. */
long kr_filter_install(struct kr_bpf *p);

/* no_new_privs as the payload sees it: the host's is always set (a monitor has no use for setuid programs),
 * the payload's own is what the container's config or the payload itself asked for. The thread's, as on
 * Linux; KR_BOOTF_NNP carries it over execve. */
int kr_nnp_view(struct kr_task *t);
void kr_nnp_set(struct kr_task *t); /* prctl(PR_SET_NO_NEW_PRIVS) */
/* Whether the payload's thread may restrict itself (seccomp filters, landlock domains): no_new_privs, or
 * CAP_SYS_ADMIN. Runs on the task's own thread. */
int kr_nnp_or_admin(struct kr_task *t);

#endif
