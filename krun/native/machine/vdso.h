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
/* Called when the process has entered a time namespace (setns(2)): forgets all but the rate, and renews the page. */
void kr_vdso_other_clocks(struct kr_mm *mm);
/* The same in the child of a fork, if its clocks are others than those of the page. Half a microsecond if they are not.
 * The kernel alone knows where a child goes (unshare(2), clone3(2), an execve before Linux 6.1), so the clocks are asked. */
void kr_vdso_child(struct kr_mm *mm);

/* What an execve hands on (KR_BOOT_CLOCK). It is the rate alone, because CLOCK_MONOTONIC itself changes if the
 * process enters a time namespace by the execve (time_namespaces(7)). */
struct kr_vdso_rate {
    u64 khz, mult; /* as in kr_vdso_state */
};
/* 0: the rate is not known well enough (KR_VDSO_LAG_HANDED), or another thread measures it at this moment. */
int kr_vdso_rate(struct kr_vdso_rate *r);
/* Called before the first exit. A rate that does not fit the VM's TSC is not used. */
void kr_vdso_set_rate(const struct kr_vdso_rate *r);

/* The arithmetic (pure; tests/native). */
struct kr_vdso_time;
/* A reading of CLOCK_MONOTONIC between tsc0 and tsc1. The offset of another clock lies in [lo, hi]. */
struct kr_vdso_sample {
    u64 tsc0, tsc1, mono;
    s64 lo[3], hi[3]; /* REALTIME, BOOTTIME, TAI */
};
#define KR_VDSO_SLACK 200      /* kr_vdso_state.slack where an exit takes a microsecond */
#define KR_VDSO_SLACK_PVM 1000 /* and where the return from an exit takes more than ten (PVM) */
#define KR_VDSO_LAG_LEAST 3u   /* kr_vdso_state.lag of the best rate */
/* The most with which a rate is handed on; the next program takes it to be so good. A promise is still the longest. */
#define KR_VDSO_LAG_HANDED 20u
struct kr_vdso_state {
    u64 khz;                   /* nominal; 0: the TSC cannot be used */
    u64 anchor_tsc, anchor_ns; /* an older sample, from which the rate is measured; 0: none */
    u64 anchor_width;          /* ns that the older sample took */
    u64 mult;                  /* ns per TSC tick, 2^32 units: handed over, nominal or measured; 0: unknown */
    u32 lag;                   /* ppm by which mult may be too high */
    u32 slack;                 /* ns of lag through `lag` at the end of a promise */
    s64 lo[3], hi[3];          /* what is known of the offsets */
};
/* Whether a rate that was handed over may be used with a TSC of khz. */
int kr_vdso_rate_fits(const struct kr_vdso_rate *r, u64 khz);
/* Whether the page holds and says what the sample says (mono, BOOTTIME), to 20 us. */
int kr_vdso_fits(const struct kr_vdso_time *page, const struct kr_vdso_sample *s);
/* Computes the page from a new sample. *page: the old page, or zeros. */
void kr_vdso_renew(struct kr_vdso_state *st, struct kr_vdso_time *page, const struct kr_vdso_sample *s);

/* In a fork child: frees `busy`, because the thread that renewed the page in the parent does not exist here. */
void kr_vdso_after_fork(void);

#endif
