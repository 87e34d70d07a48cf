/* SPDX-License-Identifier: Apache-2.0
 *
 * The time page in front of the vDSO image: offsets for guest/vdso.S, and the same as a structure for
 * machine/vdso.c, which writes the page.
 */
#ifndef KR_VDSO_PAGE_H
#define KR_VDSO_PAGE_H

#define KR_VT_SEQ 0
#define KR_VT_BASE_TSC 8
#define KR_VT_LIMIT 16
#define KR_VT_MULT 24
#define KR_VT_SHIFT 32
#define KR_VT_BASE_NS 40
#define KR_VT_OFFSET 64 /* one s64 per clock id */
#define KR_VT_CLOCKS 12
/* Ids of the clocks that are served, as bits: REALTIME, MONOTONIC, BOOTTIME, TAI. Not the COARSE clocks, because
 * only the kernel knows its last tick. */
#define KR_VT_SERVED 0x883

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in ns = base_ns + ((tsc - base_tsc) * mult >> shift), as long as tsc - base_tsc < limit
 * (unsigned). Another clock: plus offset[id]. seq is odd while the monitor writes. A page of zeros makes every call
 * a system call. */
struct kr_vdso_time {
    uint32_t seq, pad0;
    uint64_t base_tsc, limit, mult;
    uint32_t shift, pad1;
    uint64_t base_ns, pad2[2];
    int64_t offset[KR_VT_CLOCKS];
};
_Static_assert(offsetof(struct kr_vdso_time, base_tsc) == KR_VT_BASE_TSC, "vdso.S");
_Static_assert(offsetof(struct kr_vdso_time, limit) == KR_VT_LIMIT, "vdso.S");
_Static_assert(offsetof(struct kr_vdso_time, mult) == KR_VT_MULT, "vdso.S");
_Static_assert(offsetof(struct kr_vdso_time, shift) == KR_VT_SHIFT, "vdso.S");
_Static_assert(offsetof(struct kr_vdso_time, base_ns) == KR_VT_BASE_NS, "vdso.S");
_Static_assert(offsetof(struct kr_vdso_time, offset) == KR_VT_OFFSET, "vdso.S");
#endif
#endif
