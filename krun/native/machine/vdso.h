/* SPDX-License-Identifier: Apache-2.0
 * The payload's vDSO: our own image (guest/vdso.S) and the time page in front of it (guest/vdso_page.h). */
#ifndef KR_VDSO_H
#define KR_VDSO_H

#include "vmm.h"

/* Maps image and time page into a fresh address space; the address for AT_SYSINFO_EHDR, or 0 (then none is
 * announced). */
u64 kr_vdso_map(struct kr_mm *mm);
/* Called at exits, on the exiting task's thread, no lock held: renews the time page when it is older than its
 * promise. Cheap when it is not. */
void kr_vdso_tick(struct kr_mm *mm);
/* A call of this number was made that may have set a clock: what the page promises is void. */
void kr_vdso_clock_set(struct kr_mm *mm);

/* The arithmetic (pure; tests/native). */
struct kr_vdso_time;
struct kr_vdso_sample { /* CLOCK_MONOTONIC read between tsc0 and tsc1, and the offsets of other clocks to it:
                           within [lo, hi] */
    u64 tsc0, tsc1, mono;
    s64 lo[3], hi[3]; /* REALTIME, BOOTTIME, TAI */
};
struct kr_vdso_state {
    u64 khz;                   /* nominal; 0: the TSC cannot be used */
    u64 anchor_tsc, anchor_ns; /* an older sample, to measure the rate from */
    u32 measured;
    u64 mult;         /* ns per TSC tick, 2^32 units, measured or nominal */
    s64 lo[3], hi[3]; /* what is known of the offsets */
};
void kr_vdso_renew(struct kr_vdso_state *st, struct kr_vdso_time *page, const struct kr_vdso_sample *s);

/* In a fork child: who renewed the page in the parent does not exist here. */
void kr_vdso_after_fork(void);

#endif
