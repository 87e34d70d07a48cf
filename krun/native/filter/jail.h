/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own seccomp filter on the host: a list of calls, each with a reason, installed before the
 * first instruction of the guest. The filter stays in force after execve, so it allows what a monitor needs
 * to start.
 */
#ifndef KR_JAIL_H
#define KR_JAIL_H

#include "bpf.h"
#include "../process/above.h"

/* Installs the profile's filter (filter/profile.h) and then the jail, unless an ancestor has installed them
 * (KR_BOOTF_JAILED). 0, or -errno with what was attempted in *why. Sets no_new_privs for the host's thread,
 * and records in the task what the payload sees of it. Precondition: t's thread is the only one. */
int kr_jail_install(struct kr_task *t, const char **why);

/* The jail's program, which kr_jail_install installs. Pure, except that it reads the number of the monitor's
 * file. */
void kr_jail_build(struct kr_bpf *p);

/* Installs a program for the calling thread by seccomp(2). flags: further SECCOMP_FILTER_FLAG_*. 0, or the listener's
 * descriptor with NEW_LISTENER, or -errno; -E2BIG: the program did not fit into
 * its buffer. */
long kr_filter_install(struct kr_bpf *p, u32 flags);

#endif
