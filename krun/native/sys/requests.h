/* SPDX-License-Identifier: Apache-2.0
 * What the list of ioctl requests (sys/ioctl.c) says, for the filter of vmm/jail.c. */
#ifndef KR_SYS_REQUESTS_H
#define KR_SYS_REQUESTS_H

#include "../vmm/bpf.h"

#define KR_IOCTL_RANGES 128 /* room for all rows of the list */

/* The requests that are served, as ranges of their lower 16 bits (type and number): those with direction and
 * size in the upper 16 bits (encoded), or those without. Writes at most max ranges, ascending and apart from
 * each other; returns how many. */
u32 kr_ioctl_ranges(struct kr_range *out, u32 max, int encoded);

#endif
