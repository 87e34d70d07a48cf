/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's vDSO and its time page.
 *
 * The time page says how CLOCK_MONOTONIC follows from the TSC for the next few milliseconds. The page never
 * leads the host's clock, and it lags by less than a system call takes. So time does not go backwards between
 * vDSO and system call, nor between two processes:
 *   - the TSC of the base is read after the host's clock
 *   - the rate is a little lower than the measured one
 * When the promise is over, the vDSO makes a system call, and that exit renews the page. Any exit renews the
 * page when half of the promise is over.
 *
 * The promise is as long as the rate is good: at its end the page lags by at most 2 * slack, which is less than the
 * return from a system call takes. The error of a rate that was measured over n ns is the time that the two samples
 * took, divided by n: a sample is wide if the host interrupts it. So the promises become longer during the first 50 ms. An execve
 * hands a good rate on, so that the next program begins with the longest promise.
 *
 * A page can lead all the same, if the host's clock was slowed down meanwhile. Then it goes on from where it
 * is, at a lower rate. Other clocks are CLOCK_MONOTONIC plus an offset, which changes only when a clock is set.
 *
 * State: one kr_vdso_state for each monitor process, and a copy of the page. `busy` lets one thread in. vfork
 * relatives share state and page. A `busy` that is older than a second is taken over, because its owner may
 * have been killed. mm->lock is held to see whether the page is still the payload's vDSO.
 */
#include "vdso.h"
#include "hostmem.h"
#include "mm.h"
#include "usercopy.h"
#include "../guest/vdso_page.h"
#include <linux/mman.h>
#include <linux/time.h>

extern const u8 kr_vdso_image[], kr_vdso_image_end[];

#define SHIFT 32
#define PROMISE_NS 10000000ULL    /* the longest that a page holds */
#define REANCHOR_NS 2000000000ULL /* the rate follows the host's slewing */
#define FIRST_LAG_PPM 200         /* of KVM's figure of the rate */
#define CATCH_PPM 1000            /* the kernel slews by half as much */
#define STEP_NS 1000000LL
#define NEAR_NS 20000 /* a page that a slewed clock has left behind is nearer */

_Static_assert(KR_VDSO_SLACK * 1000000ULL / KR_VDSO_LAG_HANDED >= PROMISE_NS, "KR_VDSO_LAG_HANDED");

static const u32 clock_ids[3] = {CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI};
#define BOOTTIME 1 /* index */

static u64 read_tsc(void) {
    u32 lo, hi;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi) : : "memory");
    return (u64)hi << 32 | lo;
}

/* ---- Arithmetic (pure) ---- */

static u64 slower(u64 mult, u32 ppm) { return mult - mult / 1000000 * ppm; }

static u64 page_ns(const struct kr_vdso_time *p, u64 tsc) {
    return p->base_ns + (u64)((unsigned __int128)(tsc - p->base_tsc) * p->mult >> p->shift);
}

/* (n << 32) / d, at most 2^64 - 1. (There is no libgcc for a division of 128 bits.) */
static u64 ratio(u64 n, u64 d) {
    u64 high = n >> 32, low = n << 32, q;
    if (high >= d)
        return ~0ULL;
    __asm__("divq %3" : "=a"(q), "+d"(high) : "a"(low), "r"(d) : "cc");
    return q;
}

static u64 nominal(u64 khz) { return (1000000ULL << SHIFT) / khz; }

/* No clock discipline goes further than this from KVM's figure. */
static int possible(u64 mult, u64 khz) {
    u64 n = nominal(khz);
    return mult <= n + n / 500 && mult >= n - n / 500;
}

int kr_vdso_rate_fits(const struct kr_vdso_rate *r, u64 khz) {
    return khz && r->khz == khz && possible(r->mult, khz);
}

static void set_anchor(struct kr_vdso_state *st, const struct kr_vdso_sample *s, u64 width) {
    st->anchor_tsc = s->tsc1;
    st->anchor_ns = s->mono;
    st->anchor_width = width;
}

/* Sets mult and lag, if this sample gives a better rate than the one that is known. */
static void measure(struct kr_vdso_state *st, const struct kr_vdso_sample *s) {
    u64 width = (u64)((unsigned __int128)(s->tsc1 - s->tsc0) * nominal(st->khz) >> SHIFT);
    if (!st->anchor_tsc && st->mult) { /* handed over */
        set_anchor(st, s, width);
        return;
    }
    if (st->anchor_tsc && s->tsc1 > st->anchor_tsc && s->mono >= st->anchor_ns) {
        u64 dt = s->tsc1 - st->anchor_tsc, dn = s->mono - st->anchor_ns;
        u64 lag = KR_VDSO_LAG_LEAST + (st->anchor_width + width) * 1000000 / (dn + 1);
        if (lag > st->lag)
            return;
        u64 mult = ratio(dn, dt);
        if (possible(mult, st->khz)) {
            st->mult = mult;
            st->lag = (u32)lag;
            if (dn >= REANCHOR_NS)
                set_anchor(st, s, width);
            return;
        }
    }
    /* The first sample; or the TSC or the host's clock jumped (suspend, migration). */
    set_anchor(st, s, width);
    st->mult = nominal(st->khz);
    st->lag = FIRST_LAG_PPM;
}

int kr_vdso_fits(const struct kr_vdso_time *p, const struct kr_vdso_sample *s) {
    s64 boot = p->offset[CLOCK_BOOTTIME];
    return p->limit && s->tsc1 - p->base_tsc < p->limit && page_ns(p, s->tsc0) <= s->mono + NEAR_NS &&
           page_ns(p, s->tsc1) + NEAR_NS >= s->mono && boot + NEAR_NS >= s->lo[BOOTTIME] &&
           boot <= s->hi[BOOTTIME] + NEAR_NS;
}

void kr_vdso_renew(struct kr_vdso_state *st, struct kr_vdso_time *page, const struct kr_vdso_sample *s) {
    measure(st, s);
    u32 lag = st->lag;
    u64 promise = KR_MIN(PROMISE_NS, st->slack * 1000000ULL / lag);

    u64 base = s->mono;
    if (page->limit && s->tsc1 - page->base_tsc < page->limit) {
        /* The old page still holds: a program that has just read it must not see an earlier time now. */
        u64 old = page_ns(page, s->tsc1);
        if (old > base && (s64)(old - base) < STEP_NS) {
            base = old;
            lag += (u32)KR_MIN((old - s->mono) * 1000000 / promise + 1,
                               (u64)CATCH_PPM); /* meets the clock when the promise ends */
        }
    }
    page->base_tsc = s->tsc1;
    page->base_ns = base;
    page->shift = SHIFT;
    page->mult = slower(st->mult, lag);
    /* The product of limit and mult stays below 2^64: promise << 32. */
    page->limit = promise * st->khz / 1000000;

    for (u32 i = 0; i < 3; i++) {
        /* Each sample bounds the offset. The true offset lies in all of the bounds, unless the clock was set. */
        s64 lo = s->lo[i] > st->lo[i] ? s->lo[i] : st->lo[i],
            hi = s->hi[i] < st->hi[i] ? s->hi[i] : st->hi[i];
        if (st->lo[i] == st->hi[i] && !st->lo[i]) { /* nothing known yet */
            lo = s->lo[i];
            hi = s->hi[i];
        } else if (lo > hi) {
            lo = s->lo[i];
            hi = s->hi[i];
        }
        st->lo[i] = lo;
        st->hi[i] = hi;
        page->offset[clock_ids[i]] = lo;
    }
    page->offset[CLOCK_REALTIME_COARSE] = page->offset[CLOCK_REALTIME];
    page->offset[CLOCK_MONOTONIC_COARSE] = 0;
}

/* ---- The process's page ---- */

static struct kr_vdso_state state;
static struct kr_vdso_time page; /* what the payload's page holds */
static u64 renew_at;             /* TSC from which on an exit renews the page */
static u64 busy;                 /* TSC at which a thread took the state; 0: nobody has it */
static u64 page_addr;
static struct kr_vdso_rate handed; /* by the program before; zeros: nothing */

static u64 clock_ns(int id) {
    s64 ts[2] = {0, 0};
    kr_sys2(__NR_clock_gettime, id, ts);
    return (u64)ts[0] * 1000000000ULL + (u64)ts[1];
}

static void take_sample(struct kr_vdso_sample *s) {
    /* The closest of three, because an interruption between the readings would make the page lag. */
    u64 best = ~0ULL;
    for (int i = 0; i < 3; i++) {
        u64 a = read_tsc(), ns = clock_ns(CLOCK_MONOTONIC), b = read_tsc();
        if (b - a < best) {
            best = b - a;
            s->tsc0 = a;
            s->tsc1 = b;
            s->mono = ns;
        }
    }
    u64 before = clock_ns(CLOCK_MONOTONIC);
    for (u32 i = 0; i < 3; i++) {
        u64 v = clock_ns((int)clock_ids[i]), after = clock_ns(CLOCK_MONOTONIC);
        s->lo[i] = (s64)(v - after);
        s->hi[i] = (s64)(v - before);
        before = after;
    }
}

/* Writes the page into the payload's memory, if the payload still has it mapped. */
static void publish(struct kr_mm *mm, const struct kr_vdso_time *p) {
    u32 odd = p->seq | 1, even = odd + 1;
    kr_lock(&mm->lock);
    struct kr_vma *v = kr_vma_find(mm, page_addr);
    if (v && v->start <= page_addr && v->flags & KR_VMA_VDSO) {
        /* The array has the page, but the host may refuse it: so these are the copies that may fault. */
        long r = kr_copy_out(page_addr + KR_VT_SEQ, &odd, sizeof odd);
        if (r == 0)
            r = kr_copy_out(page_addr + KR_VT_BASE_TSC, &p->base_tsc, sizeof *p - KR_VT_BASE_TSC);
        if (r == 0)
            kr_copy_out(page_addr + KR_VT_SEQ, &even, sizeof even);
    }
    kr_unlock(&mm->lock);
    page.seq = even;
}

static int take(u64 now) {
    u64 was = __atomic_load_n(&busy, __ATOMIC_RELAXED);
    if (was && now - was < state.khz * 1000)
        return 0;
    return __atomic_compare_exchange_n(&busy, &was, now, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void give_back(void) { __atomic_store_n(&busy, 0, __ATOMIC_RELEASE); }

static void forget_offsets(void) {
    for (u32 i = 0; i < 3; i++)
        state.lo[i] = state.hi[i] = 0;
}

/* Nothing that is known of a clock's value counts; the rate does. */
static void forget(void) {
    forget_offsets();
    state.anchor_tsc = 0;
    page.limit = 0;
}

void kr_vdso_after_fork(void) {
    if (busy) { /* another thread of the parent was changing the state */
        state.mult = 0;
        forget();
    }
    busy = 0;
}

static int tsc_is_steady(void) {
    u32 a = 0x80000000u, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (a < 0x80000007u)
        return 0;
    a = 0x80000007u;
    c = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return d >> 8 & 1; /* invariant TSC */
}

int kr_vdso_rate(struct kr_vdso_rate *r) {
    if (!take(read_tsc()))
        return 0;
    int good = state.khz && state.mult && state.lag <= KR_VDSO_LAG_HANDED;
    if (good)
        *r = (struct kr_vdso_rate){state.khz, state.mult};
    give_back();
    return good;
}

void kr_vdso_set_rate(const struct kr_vdso_rate *r) { handed = *r; }

u64 kr_vdso_map(struct kr_mm *mm) {
    u64 size = (u64)(kr_vdso_image_end - kr_vdso_image);
    kr_lock(&mm->lock);
    u64 at = kr_mm_find_free(mm, KR_PAGE + size, KR_PAGE);
    kr_unlock(&mm->lock);
    if (!at)
        return 0;
    /* The host's mapping of the time page is writable, because the monitor writes it. The guest's is not. */
    long r = kr_host_map(at, KR_PAGE + size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (r != (long)at)
        return 0;
    memcpy((void *)(at + KR_PAGE), kr_vdso_image, size);
    kr_host_protect(at + KR_PAGE, size, PROT_READ);
    if (kr_mm_adopt(mm, at, KR_PAGE, PROT_READ, KR_VMA_ANON | KR_VMA_VDSO) < 0 ||
        kr_mm_adopt(mm, at + KR_PAGE, size, PROT_READ | PROT_EXEC, KR_VMA_ANON | KR_VMA_VDSO) < 0) {
        kr_mm_munmap(mm, at, KR_PAGE + size);
        return 0;
    }
    page_addr = at;
    return at + KR_PAGE;
}

static void renew(struct kr_mm *mm, u64 now) {
    struct kr_vdso_sample s;
    take_sample(&s);
    state.slack = kr_vm_entry(&mm->vm) == KR_ENTRY_RING3 ? KR_VDSO_SLACK_PVM : KR_VDSO_SLACK;
    kr_vdso_renew(&state, &page, &s);
    publish(mm, &page);
    __atomic_store_n(&renew_at, now + page.limit / 2, __ATOMIC_RELAXED);
}

void kr_vdso_tick(struct kr_mm *mm) {
    u32 lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    u64 now = (u64)hi << 32 | lo;
    if (now < __atomic_load_n(&renew_at, __ATOMIC_RELAXED))
        return;
    if (!state.khz) { /* the first time: whether the TSC may be used */
        int known =
            kr_vdso_rate_fits(&handed, mm->vm.tsc_khz); /* a CPUID costs an exit where the host is a VM */
        if (!page_addr || !mm->vm.tsc_khz || (!known && !tsc_is_steady())) {
            __atomic_store_n(&renew_at, ~0ULL, __ATOMIC_RELAXED);
            return;
        }
        if (known) {
            state.mult = handed.mult;
            state.lag = KR_VDSO_LAG_HANDED;
        }
        __atomic_store_n(&state.khz, mm->vm.tsc_khz, __ATOMIC_RELAXED);
    }
    if (!take(now))
        return;
    renew(mm, now);
    give_back();
}

/* Renews the page although it holds. */
static void renew_now(struct kr_mm *mm, void (*first)(void)) {
    const s64 moment[2] = {0, 20000};
    u64 now;
    if (!__atomic_load_n(&state.khz, __ATOMIC_RELAXED))
        return;
    while (!take(now = read_tsc())) /* another thread may have read the clock before it changed */
        kr_sys2(__NR_nanosleep, moment, 0);
    first();
    renew(mm, now);
    give_back();
}

void kr_vdso_clock_set(struct kr_mm *mm) { renew_now(mm, forget_offsets); }

void kr_vdso_other_clocks(struct kr_mm *mm) { renew_now(mm, forget); }

void kr_vdso_child(struct kr_mm *mm) {
    struct kr_vdso_sample s;
    s.tsc0 = read_tsc();
    s.mono = clock_ns(CLOCK_MONOTONIC);
    s.tsc1 = read_tsc();
    if (page.limit && s.tsc1 - page.base_tsc >= page.limit) { /* the payload's page is over, too */
        forget();
        return;
    }
    u64 boot = clock_ns(CLOCK_BOOTTIME);
    s.hi[BOOTTIME] = (s64)(boot - s.mono);
    s.lo[BOOTTIME] = (s64)(boot - clock_ns(CLOCK_MONOTONIC));
    if (!kr_vdso_fits(&page, &s))
        kr_vdso_other_clocks(mm);
}
