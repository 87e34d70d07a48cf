/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's copy of the container's seccomp profile (config-linux.md, "Seccomp").
 *
 * The monitor evaluates the profile for each call of the payload (filter/seccomp.h). A monitor that its
 * payload has taken over would not do so. Therefore the kernel has a copy of the profile as a filter of the
 * monitor. The copy allows what a monitor needs to serve calls of any kind (`needed` in filter/profile.c),
 * because the monitor serves a call of the payload by other calls: open by openat2, fork by clone. The
 * profile decides all other calls. A monitor that was taken over therefore has the calls of a container of
 * runc and those of `needed`.
 */
#ifndef KR_PROFILE_H
#define KR_PROFILE_H

#include "bpf.h"

/* Installs the filters of the KR_BOOT_SECCOMP records of the boot block. Each filter has the calls that a
 * monitor needs in front. Without a record nothing is installed. 0, or -errno with what was attempted in
 * *why; -E2BIG: the profile leaves no room for these calls among the 4096 instructions that the kernel
 * accepts. */
int kr_profile_install(const char **why);

/* The program for one profile of n instructions (pure). notify: the filter has a listener (abi/notify.h). -EINVAL for a
 * verdict that is not a constant. */
int kr_profile_build(struct kr_bpf *p, const struct sock_filter *profile, u32 n, int notify);

#endif
