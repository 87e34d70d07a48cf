/* SPDX-License-Identifier: Apache-2.0
 *
 * The container's seccomp profile (config-linux.md, "Seccomp") in the kernel, too.
 *
 * The monitor evaluates the profile for each call of the payload (filter/seccomp.h). A monitor that was taken
 * over would not, so the kernel has a copy of it as the monitor's own filter. The copy lets pass what a
 * monitor itself needs to serve calls of any kind (`needed` in filter/profile.c), because the monitor serves a
 * payload's call by others: open by openat2, fork by clone. All else is the profile's decision, so a
 * monitor that was taken over has the calls of a container of runc and those of `needed`.
 */
#ifndef KR_PROFILE_H
#define KR_PROFILE_H

#include "bpf.h"

/* Installs the filters of the boot block's KR_BOOT_SECCOMP records, each with the calls that a monitor needs
 * in front. No record: nothing. 0, or -errno with what was attempted in *why: -E2BIG for a profile that
 * leaves no room for them among the 4096 instructions that the kernel takes. */
int kr_profile_install(const char **why);

/* The program for one profile of n instructions (pure). -EINVAL for a verdict that is not a constant. */
int kr_profile_build(struct kr_bpf *p, const struct sock_filter *profile, u32 n);

#endif
