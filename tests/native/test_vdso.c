/* SPDX-License-Identifier: Apache-2.0
 * guest/vdso.S and machine/vdso.c: the image is a shared object as C libraries and Go read it, its functions tell
 * the time, and the arithmetic never leads the clock nor goes backwards. The image runs natively here.
 * Sources: vdso.S vdso.c hostmem.c kr_alloc.c */
#include "harness.h"
#include "guest/vdso_page.h"
#include "machine/mm.h"
#include "machine/vdso.h"
#include <linux/elf.h>
#include <linux/mman.h>
#include <linux/time.h>

extern const u8 kr_vdso_image[], kr_vdso_image_end[];

struct kr_vma *kr_vma_find(struct kr_mm *mm, u64 addr) {
    for (u32 i = 0; i < mm->nvma; i++)
        if (mm->vma[i].end > addr)
            return &mm->vma[i];
    return NULL;
}
u64 kr_mm_find_free(struct kr_mm *mm, u64 len, u64 align) {
    (void)mm;
    (void)align;
    u64 p = (u64)kr_test_window(len);
    kr_sys2(__NR_munmap, p, len);
    return p;
}
long kr_mm_adopt(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags) {
    mm->vma[mm->nvma++] = (struct kr_vma){addr, addr + len, prot, flags};
    return 0;
}
long kr_mm_munmap(struct kr_mm *mm, u64 addr, u64 len) {
    (void)mm;
    return kr_sys2(__NR_munmap, addr, len);
}

static const u8 *img;
static u32 word(u64 at) {
    u32 v;
    memcpy(&v, img + at, 4);
    return v;
}
static u64 dyn(u64 tag) {
    const struct elf64_hdr *eh = (const void *)img;
    const struct elf64_phdr *ph = (const void *)(img + eh->e_phoff);
    for (u32 i = 0; i < eh->e_phnum; i++)
        if (ph[i].p_type == PT_DYNAMIC)
            for (const Elf64_Dyn *d = (const void *)(img + ph[i].p_offset); d->d_tag; d++)
                if ((u64)d->d_tag == tag)
                    return d->d_un.d_val;
    return 0;
}

/* As musl and Go: through DT_HASH, with the version. */
static void *by_hash(const char *name) {
    u64 h = dyn(DT_HASH), sym = dyn(DT_SYMTAB), str = dyn(DT_STRTAB), ver = dyn(DT_VERSYM);
    CHECK_EQ(word(h), 1);
    for (u32 i = word(h + 8); i; i = word(h + 8 + 4 + 4 * i)) {
        const Elf64_Sym *s = (const void *)(img + sym + 24 * i);
        u16 v;
        memcpy(&v, img + ver + 2 * i, 2);
        if (strcmp((const char *)img + str + s->st_name, name) == 0) {
            CHECK_EQ(v, 2);
            CHECK_EQ(s->st_info & 15, STT_FUNC);
            CHECK(s->st_shndx != 0 && s->st_size > 0);
            return (void *)(img + s->st_value);
        }
    }
    return NULL;
}

/* As glibc: through DT_GNU_HASH. */
static void *by_gnu_hash(const char *name) {
    u64 g = dyn(0x6ffffef5), sym = dyn(DT_SYMTAB), str = dyn(DT_STRTAB);
    u32 want = 5381, nb = word(g), first = word(g + 4), bloom = word(g + 8);
    for (const char *p = name; *p; p++)
        want = want * 33 + (u8)*p;
    u64 buckets = g + 16 + 8 * bloom, chain = buckets + 4 * nb;
    for (u32 i = word(buckets + 4 * (want % nb));; i++) {
        u32 hv = word(chain + 4 * (i - first));
        const Elf64_Sym *s = (const void *)(img + sym + 24 * i);
        if ((hv | 1) == (want | 1) && strcmp((const char *)img + str + s->st_name, name) == 0)
            return (void *)(img + s->st_value);
        if (hv & 1)
            return NULL;
    }
}

static const char *const names[] = {
    "__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu", "__vdso_clock_getres",
    "clock_gettime",        "gettimeofday",        "time",        "getcpu",        "clock_getres"};

static void object(void) {
    const struct elf64_hdr *eh = (const void *)img;
    CHECK(memcmp(eh->e_ident, "\177ELF\2\1\1", 7) == 0);
    CHECK_EQ(eh->e_type, ET_DYN);
    CHECK_EQ(kr_vdso_image_end - kr_vdso_image, 4096);
    for (u32 i = 0; i < KR_COUNT(names); i++) {
        CHECK(by_hash(names[i]) != NULL);
        CHECK(by_gnu_hash(names[i]) == by_hash(names[i]));
    }
    CHECK(by_gnu_hash("clock_settime") == NULL);
    const char *str = (const char *)img + dyn(DT_STRTAB);
    CHECK_STR(str + dyn(DT_SONAME), "linux-vdso.so.1");
    u64 vd = dyn(DT_VERDEF);
    CHECK_EQ(dyn(DT_VERDEFNUM), 2);
    vd += word(vd + 16);
    CHECK_EQ(word(vd + 8), 0x3ae75f6);
    CHECK_STR(str + word(vd + word(vd + 12)), "LINUX_2.6");
    CHECK_EQ(dyn(DT_RELA) + dyn(DT_REL) + dyn(DT_TEXTREL), 0);
}

static s64 host(int id) {
    s64 ts[2];
    kr_sys2(__NR_clock_gettime, id, ts);
    return ts[0] * 1000000000LL + ts[1];
}

static int (*v_gettime)(int, s64 *);
static s64 vdso(int id) {
    s64 ts[2];
    CHECK_EQ(v_gettime(id, ts), 0);
    CHECK(ts[1] >= 0 && ts[1] < 1000000000);
    return ts[0] * 1000000000LL + ts[1];
}

static void running(void) {
    struct kr_vma room[4];
    struct kr_mm *mm = calloc(1, sizeof *mm);
    mm->vma = room;
    u64 at = kr_vdso_map(mm);
    CHECK(at != 0);
    CHECK_EQ(mm->nvma, 2);
    CHECK_EQ(mm->vma[0].prot, PROT_READ);
    img = (const u8 *)at;
    object();
    kr_sys3(__NR_mprotect, at, 4096, PROT_READ | PROT_EXEC);
    v_gettime = (int (*)(int, s64 *))by_hash("__vdso_clock_gettime");
    int (*v_tod)(s64 *, void *) = (int (*)(s64 *, void *))by_hash("__vdso_gettimeofday");
    s64 (*v_time)(s64 *) = (s64(*)(s64 *))by_hash("__vdso_time");
    int (*v_cpu)(u32 *, u32 *, void *) = (int (*)(u32 *, u32 *, void *))by_hash("__vdso_getcpu");
    int (*v_res)(int, s64 *) = (int (*)(int, s64 *))by_hash("__vdso_clock_getres");
    static const int ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
    /* TSC's frequency: as KVM would tell it */
    u64 khz = 0;
    for (int pass = 0; pass < 2; pass++) { /* an empty page; then a good one */
        const struct kr_vdso_time *page = (const void *)(at - 4096);
        if (pass) {
            u32 lo, hi;
            __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
            u64 t0 = (u64)hi << 32 | lo;
            s64 n0 = host(CLOCK_MONOTONIC), n1;
            while ((n1 = host(CLOCK_MONOTONIC)) < n0 + 20000000)
                ;
            __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
            khz = (((u64)hi << 32 | lo) - t0) * 1000000 / (u64)(n1 - n0);
            mm->vm.tsc_khz = khz;
            kr_vdso_tick(mm);
            if (!page->limit) {
                printf("SKIP reading the clock: no invariant TSC\n");
                free(mm);
                return;
            }
            CHECK(page->seq == 2);
        }
        s64 worst = 0, last[4] = {0};
        u64 hits = 0;
        for (u32 round = 0; round < 20000; round++) {
            if (pass)
                kr_vdso_tick(mm);
            u32 i = round % 4;
            s64 a = host(ids[i]), v = vdso(ids[i]), b = host(ids[i]);
            /* between the two readings; a little lag is allowed */
            CHECK(v >= a - 1000 && v <= b);
            if (a - v > worst)
                worst = a - v;
            CHECK(v >= last[i]);
            last[i] = v;
            hits++;
        }
        if (pass)
            printf("vdso: worst lag %lld ns in %llu readings, %llu kHz\n", (long long)worst,
                   (unsigned long long)hits, (unsigned long long)khz);
        s64 tv[2], sec = 0;
        s64 ticked = host(CLOCK_REALTIME_COARSE); /* time() is as old as the tick */
        if (pass)
            kr_vdso_tick(mm);
        s64 a = host(CLOCK_REALTIME);
        CHECK_EQ(v_tod(tv, NULL), 0);
        CHECK(tv[0] * 1000000 + tv[1] >= a / 1000 - 1 && tv[1] < 1000000);
        int tz[2] = {7, 7};
        CHECK_EQ(v_tod(tv, tz), 0);
        CHECK_EQ(tz[0], 0);
        CHECK(v_time(&sec) == sec && sec >= ticked / 1000000000);
        CHECK(v_time(NULL) >= sec);
        u32 cpu = ~0u, node = ~0u;
        CHECK_EQ(v_cpu(&cpu, &node, NULL), 0);
        CHECK(cpu < 4096 && node < 4096);
        s64 res[2] = {9, 9};
        CHECK_EQ(v_res(CLOCK_MONOTONIC, res), 0);
        CHECK(res[0] == 0 && res[1] == 1);
        CHECK_EQ(v_res(CLOCK_REALTIME_COARSE, res), 0);
        CHECK(res[1] > 1);
        CHECK_EQ(v_res(77, res), -EINVAL);
        CHECK_EQ(v_res(CLOCK_MONOTONIC, NULL), 0);
        CHECK_EQ(v_gettime(77, res), -EINVAL);
        CHECK_EQ(v_gettime(-6, res), 0); /* this thread's CPU time: a real call */
        CHECK(vdso(CLOCK_MONOTONIC_COARSE) > 0 && vdso(CLOCK_REALTIME_COARSE) > 0 &&
              vdso(CLOCK_MONOTONIC_RAW) > 0);
        CHECK(vdso(CLOCK_PROCESS_CPUTIME_ID) > 0);
    }
    /* The payload takes the page away: nothing is written there any more. */
    mm->nvma = 0;
    memset((void *)(at - 4096), 0x55, 4096);
    for (s64 end = host(CLOCK_MONOTONIC) + 15000000; host(CLOCK_MONOTONIC) < end;)
        kr_vdso_tick(mm);
    CHECK_EQ(*(u8 *)(at - 4096), 0x55);
    free(mm);
}

/* A simulated host: TSC at khz, a clock that is slewed, readings that take time. */
static void arithmetic(u64 khz, int ppm_wobble, u32 slack) {
    struct kr_vdso_state st = {.khz = khz, .slack = slack};
    struct kr_vdso_time page = {0};
    double tsc = 1e9, mono = 5e9, rate = 1e6 / (double)khz; /* ns per tick */
    double slew = 1.0, real_off = 1e18;
    s64 last = 0, last_real = 0;
    double worst_lead = 0, worst_lag = 0;
    for (int i = 0; i < 60000; i++) {
        /* Time goes on by up to 12 ms. */
        double step = (double)kr_test_below(12000000) / rate;
        if (kr_test_below(2))
            step /= 1000;
        tsc += step;
        mono += step * rate * slew;
        if (i % 500 == 0)
            slew = 1.0 + ((double)kr_test_below(2001) - 1000) * 1e-9 * ppm_wobble;
        int stepped = i % 5000 == 4999;
        if (stepped)
            real_off += kr_test_below(2) ? 3e9 : -3e9;
        if (page.limit && (u64)tsc - page.base_tsc < page.limit) {
            s64 v = (s64)(page.base_ns + (((u64)tsc - page.base_tsc) * page.mult >> page.shift));
            CHECK(v >= last);
            last = v;
            double lead = (double)v - mono;
            if (lead > worst_lead)
                worst_lead = lead;
            if (-lead > worst_lag)
                worst_lag = -lead;
            s64 r = v + page.offset[0];
            if (!stepped && i % 5000 > 50)
                CHECK(r >= last_real);
            last_real = r;
        }
        if (kr_test_below(3) == 0 || !page.limit || (u64)tsc - page.base_tsc >= page.limit) {
            struct kr_vdso_sample s;
            double d0 = (double)kr_test_below(100) / rate, d1 = (double)kr_test_below(100) / rate;
            s.tsc0 = (u64)tsc;
            s.mono = (u64)(mono + d0 * rate * slew);
            tsc += d0 + d1;
            mono += (d0 + d1) * rate * slew;
            s.tsc1 = (u64)tsc + 1;
            for (int k = 0; k < 3; k++) {
                s.lo[k] = (s64)real_off - (s64)kr_test_below(100);
                s.hi[k] = (s64)real_off + (s64)kr_test_below(100);
            }
            kr_vdso_renew(&st, &page, &s);
            CHECK(page.limit * page.mult >> 32 <= 10100000);
            CHECK(!__builtin_mul_overflow(page.limit, page.mult, &(u64){0}));
        }
    }
    CHECK_EQ(st.lag, KR_VDSO_LAG_LEAST);
    /* Lead: at most what a slew that began within the promise can make. */
    CHECK(worst_lead <= 20.0 * ppm_wobble + 60);
    CHECK(worst_lag <= 20.0 * ppm_wobble + 200 + 2 * slack);
    if (worst_lead > 20.0 * ppm_wobble + 60 || worst_lag > 20.0 * ppm_wobble + 200 + 2 * slack)
        printf("khz %llu wobble %d: lead %.0f lag %.0f\n", (unsigned long long)khz, ppm_wobble, worst_lead,
               worst_lag);
}

/* The first 80 ms of a program that only reads the clock, on a host whose TSC is off by `ppm` from KVM's figure: how
 * many times the vDSO makes a system call. It never leads, and lags by no more than 2 * slack and a sample. */
static u32 calls_at_start(u64 khz, int ppm, u32 slack, u64 handed) {
    struct kr_vdso_state st = {.khz = khz, .slack = slack};
    struct kr_vdso_time page = {0};
    double rate = 1e6 / (double)khz * (1 + ppm * 1e-6), begin = 1e10, ns = 0;
    u32 calls = 0;
    if (handed) {
        st.mult = handed;
        st.lag = KR_VDSO_LAG_HANDED;
    }
    for (; ns < 80e6; ns += 1000) {
        u64 tsc = (u64)((begin + ns) / rate);
        if (!page.limit || tsc - page.base_tsc >= page.limit) {
            struct kr_vdso_sample s = {
                .tsc0 = tsc, .mono = (u64)(begin + ns + 100), .tsc1 = (u64)((begin + ns + 200) / rate) + 1};
            kr_vdso_renew(&st, &page, &s);
            calls++;
            continue;
        }
        double lead =
            (double)(page.base_ns + ((tsc - page.base_tsc) * page.mult >> page.shift)) - (begin + ns);
        CHECK(lead <= 2);
        CHECK(-lead <= 2.0 * slack + 210);
    }
    return calls;
}

static void beginning(u64 khz, int ppm, u32 slack) {
    u64 mult = (u64)(1e6 / (double)khz * (1 + ppm * 1e-6) * 4294967296.0);
    u32 alone = calls_at_start(khz, ppm, slack, 0), handed = calls_at_start(khz, ppm, slack, mult);
    CHECK(handed <= 9); /* one for each 10 ms */
    CHECK(alone <= (slack == KR_VDSO_SLACK ? 20 : 9));
    if (alone > (slack == KR_VDSO_SLACK ? 20 : 9))
        printf("khz %llu ppm %d slack %u: %u calls\n", (unsigned long long)khz, ppm, slack, alone);
}

/* The first sample takes `wide` ns, because the host has interrupted it behind the reading of the clock: the page never
 * leads, and the rate is not handed on before the width means nothing. Then it is. */
static void interrupted(u64 khz, u32 slack, u32 wide) {
    struct kr_vdso_state st = {.khz = khz, .slack = slack};
    struct kr_vdso_time page = {0};
    double rate = 1e6 / (double)khz, begin = 1e10, worst = 0;
    for (double ns = 0; ns < 3e9; ns += 100000) {
        u64 tsc = (u64)((begin + ns) / rate);
        if (page.limit && tsc - page.base_tsc < page.limit) {
            double lead =
                (double)(page.base_ns + ((tsc - page.base_tsc) * page.mult >> page.shift)) - (begin + ns);
            worst = lead > worst ? lead : worst;
            continue;
        }
        struct kr_vdso_sample s = {.tsc0 = tsc, .mono = (u64)(begin + ns), .tsc1 = tsc + khz / 10000};
        if (ns == 0)
            s.tsc1 = (u64)((begin + wide) / rate);
        kr_vdso_renew(&st, &page, &s);
        double real = rate * 4294967296.0, error = ((double)st.mult - real) / real * 1e6;
        CHECK(st.lag > KR_VDSO_LAG_HANDED || error <= KR_VDSO_LAG_HANDED);
    }
    CHECK(worst <= 2);
    if (worst > 2)
        printf("khz %llu slack %u wide %u: lead %.0f ns\n", (unsigned long long)khz, slack, wide, worst);
    CHECK(st.lag <= KR_VDSO_LAG_HANDED);
}

/* Another time namespace, as the child of a fork sees it. */
static void other_clocks(void) {
    struct kr_vdso_state st = {.khz = 2000000, .slack = KR_VDSO_SLACK};
    struct kr_vdso_time page = {0};
    const s64 boot = 77000000000, day = 86400000000000;
    struct kr_vdso_sample s = {2000000000, 2000000400, 5000000100, {0, boot, 0}, {100, boot + 100, 100}};
    CHECK(!kr_vdso_fits(&page, &s)); /* an empty page */
    kr_vdso_renew(&st, &page, &s);
    for (u64 us = 1; us < 900; us += 100) {
        struct kr_vdso_sample t = s;
        t.tsc0 += us * 2000, t.tsc1 += us * 2000, t.mono += us * 1000;
        CHECK(kr_vdso_fits(&page, &t));
        for (int sign = -1; sign <= 1; sign += 2) {
            struct kr_vdso_sample mono = t, other = t;
            mono.mono += (u64)(sign * day);
            other.lo[1] += sign * day, other.hi[1] += sign * day;
            CHECK(!kr_vdso_fits(&page, &mono) && !kr_vdso_fits(&page, &other));
        }
    }
    s.tsc0 += page.limit, s.tsc1 += page.limit; /* the promise is over */
    CHECK(!kr_vdso_fits(&page, &s));
}

static void handing_on(void) {
    struct kr_vdso_rate r = {2000000, (1000000ULL << 32) / 2000000};
    CHECK(kr_vdso_rate_fits(&r, 2000000));
    CHECK(!kr_vdso_rate_fits(&r, 2000001) && !kr_vdso_rate_fits(&r, 0));
    r.mult += r.mult / 400;
    CHECK(!kr_vdso_rate_fits(&r, 2000000));
    r = (struct kr_vdso_rate){0, 0};
    CHECK(!kr_vdso_rate_fits(&r, 0));
}

void test_main(void) {
    handing_on();
    other_clocks();
    img = kr_vdso_image;
    object();
    static const u64 khz[] = {800000, 2000000, 2599998, 5123456};
    for (u32 i = 0; i < KR_COUNT(khz); i++) {
        for (u32 slack = KR_VDSO_SLACK; slack; slack = slack == KR_VDSO_SLACK ? KR_VDSO_SLACK_PVM : 0) {
            arithmetic(khz[i], 0, slack);
            arithmetic(khz[i], 1, slack);
            arithmetic(khz[i], 100, slack);
            beginning(khz[i], 0, slack);
            beginning(khz[i], -150, slack);
            beginning(khz[i], 150, slack);
            interrupted(khz[i], slack, 1000);
            interrupted(khz[i], slack, 50000);
        }
    }
    running();
}
