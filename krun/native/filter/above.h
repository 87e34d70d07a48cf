/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of higher layers that filter/ calls: the lists from which the rules of the jail are made.
 */
#ifndef KR_FILTER_ABOVE_H
#define KR_FILTER_ABOVE_H

#include "bpf.h"

/* ---- sys/ioctl.c ---- */

#define KR_IOCTL_RANGES 128 /* room for all rows of the list */

/* The ioctl(2) requests that are served, as ranges of their lower 16 bits (type and number). encoded: the
 * requests with direction and size in the upper 16 bits; else the requests without. Writes at most max
 * ranges, ascending and disjoint. Returns their number. */
u32 kr_ioctl_ranges(struct kr_range *out, u32 max, int encoded);

/* ---- sys/prctl.c ---- */

#define KR_PRCTL_OPTIONS 64 /* room for all rows of the list */

/* The prctl(2) options for which the host's call is made for the payload. Writes at most max of them; returns how
 * many. */
u32 kr_prctl_forwarded(u32 *out, u32 max);

#endif
