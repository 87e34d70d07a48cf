/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's vDSO: the monitor's own image (guest/vdso.S), and the time page in front of it
 * (guest/vdso_page.h).
 */
#ifndef KR_VDSO_H
#define KR_VDSO_H

#include "vmm.h"

/* Maps time page and image into a fresh address space. The address for AT_SYSINFO_EHDR; 0: there is no vDSO,
 * and none is announced. */
u64 kr_vdso_map(struct kr_mm *mm);
/* Renews the time page when half of its promise is over; cheap when it is not. Called at exits, on the thread
 * that exits, without a lock. */
void kr_vdso_tick(struct kr_mm *mm);
/* Called after a system call that may have set a clock: forgets the offsets and renews the page. */
void kr_vdso_clock_set(struct kr_mm *mm);

/* The arithmetic (pure; tests/native). */
struct kr_vdso_time;
/* A reading of CLOCK_MONOTONIC between tsc0 and tsc1. The offset of another clock lies in [lo, hi]. */
struct kr_vdso_sample {
    u64 tsc0, tsc1, mono;
    s64 lo[3], hi[3]; /* REALTIME, BOOTTIME, TAI */
};
struct kr_vdso_state {
    u64 khz;                   /* nominal; 0: the TSC cannot be used */
    u64 anchor_tsc, anchor_ns; /* an older sample, from which the rate is measured */
    u32 measured;
    u64 mult;         /* ns per TSC tick, 2^32 units, measured or nominal */
    s64 lo[3], hi[3]; /* what is known of the offsets */
};
/* Computes the page from a new sample. *page: the old page, or zeros. */
void kr_vdso_renew(struct kr_vdso_state *st, struct kr_vdso_time *page, const struct kr_vdso_sample *s);

/* In a fork child: frees `busy`, because the thread that renewed the page in the parent does not exist here. */
void kr_vdso_after_fork(void);

#endif
