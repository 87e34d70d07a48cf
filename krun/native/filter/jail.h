/* SPDX-License-Identifier: Apache-2.0
 * The monitor's own seccomp filter on the host: a list of calls with a reason each, installed before the
 * first guest instruction. Survives execve, so it allows what a monitor needs to start. */
#ifndef KR_JAIL_H
#define KR_JAIL_H

#include "bpf.h"
#include "../process/above.h"

/* Installs the filters unless an ancestor did (KR_BOOTF_JAILED): the profile's (filter/profile.h), then the
 * jail. 0, or -errno with what was attempted in *why. Sets no_new_privs for the host and remembers in the
 * task what the payload is to see of it. Precondition: one thread, t's. */
int kr_jail_install(struct kr_task *t, const char **why);

/* The jail's program (pure, but for the number of the monitor's file): what kr_jail_install installs. */
void kr_jail_build(struct kr_bpf *p);

/* seccomp(2) for the calling thread. 0 or -errno; -E2BIG: the program did not fit into its buffer. */
long kr_filter_install(struct kr_bpf *p);

#endif
