/* SPDX-License-Identifier: Apache-2.0
 * The monitor's own seccomp filter on the host: a list of calls with a reason each, installed before the first guest
 * instruction. Survives execve, so it allows what a monitor needs to start. */
#ifndef KR_JAIL_H
#define KR_JAIL_H

int kr_jail_install(void); /* 0 or -errno */

#endif
