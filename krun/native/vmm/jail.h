/* SPDX-License-Identifier: Apache-2.0
 * The monitor's own seccomp filter on the host: a list of calls with a reason each, installed before the first guest
 * instruction. Survives execve, so it allows what a monitor needs to start. */
#ifndef KR_JAIL_H
#define KR_JAIL_H

int kr_jail_install(void); /* 0 or -errno */

/* no_new_privs as the payload sees it. The host's is always set once the jail stands (a monitor has no use for setuid programs); the payload's own
 * is what the container's config or the payload itself asked for. Carried over execve as KR_BOOTF_NNP. */
int kr_nnp_view(void);
void kr_nnp_set(void); /* prctl(PR_SET_NO_NEW_PRIVS) */

#endif
