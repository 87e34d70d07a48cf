/* SPDX-License-Identifier: Apache-2.0
 *
 * The assembler of classic BPF programs: see bpf.h. Pure.
 */
#include "bpf.h"

void kr_bpf_put(struct kr_bpf *p, u16 code, u32 k, u8 jt, u8 jf) {
    if (p->n < p->room)
        p->f[p->n] = (struct sock_filter){code, jt, jf, k};
    else
        p->failed = 1;
    p->n++;
}

u32 kr_bpf_begin(struct kr_bpf *p, u16 op, u32 k) {
    kr_bpf_put(p, BPF_JMP | op | BPF_K, k, 1, 0);
    kr_bpf_put(p, BPF_JMP | BPF_JA, 0, 0, 0);
    return p->n;
}

void kr_bpf_end(struct kr_bpf *p, u32 at) {
    if (p->failed)
        return;
    if (p->n - at > 255) {
        p->f[at - 1].k = p->n - at;
        return;
    }
    /* A short body: the conditional jump reaches the end of the body, so the BPF_JA is removed. */
    memmove(&p->f[at - 1], &p->f[at], (p->n - at) * sizeof *p->f);
    p->n--;
    p->f[at - 2].jt = 0;
    p->f[at - 2].jf = (u8)(p->n - (at - 1));
}

u32 kr_ranges_join(struct kr_range *r, u32 n) {
    for (u32 i = 1; i < n; i++) { /* insertion sort: the input is nearly in order */
        struct kr_range v = r[i];
        u32 at = i;
        for (; at && r[at - 1].first > v.first; at--)
            r[at] = r[at - 1];
        r[at] = v;
    }
    u32 kept = 0;
    for (u32 i = 0; i < n; i++)
        if (kept && r[i].first <= r[kept - 1].last + 1)
            r[kept - 1].last = KR_MAX(r[kept - 1].last, r[i].last);
        else
            r[kept++] = r[i];
    return kept;
}

void kr_bpf_here(struct kr_bpf *p, u32 chain) {
    for (u32 at = chain, next; at && !p->failed; at = next) {
        next = p->f[at - 1].k;
        p->f[at - 1].k = p->n - at;
    }
}

/* ---- Trees ---- */

/* Values of A from `first` to the one before the next case's lead to `to`. */
struct choice {
    u32 first, to;
};
#define CHOICES (2 * KR_BPF_RANGES + 1)
#define REACH 255 /* of a conditional jump */
#define SLOTS 24

/* A block of comparisons and, behind them, one instruction for each place to which they lead: its slots. */
struct block {
    const struct choice *c;
    u32 slot[SLOTS], nslots;
    u32 end; /* index of the first slot in the program */
};

static u32 slot_of(const struct block *b, u32 to) {
    u32 i = 0;
    while (i < b->nslots && b->slot[i] != to)
        i++;
    return i;
}

/* The comparisons that decide between the choices lo to hi (lo < hi): hi - lo instructions. The recursion is as
 * deep as the tree. */
static void compare(struct kr_bpf *p, const struct block *b, u32 lo, u32 hi) {
    u32 mid = (lo + hi + 1) / 2,
        left = mid - 1 - lo; /* first choice of the upper half; comparisons of the lower */
    u32 to_slots = b->end - p->n - 1;
    u32 jf = left ? 0 : to_slots + slot_of(b, b->c[lo].to);
    u32 jt = mid < hi ? left : to_slots + slot_of(b, b->c[hi].to);
    kr_bpf_put(p, BPF_JMP | BPF_JGE | BPF_K, b->c[mid].first, (u8)jt, (u8)jf);
    if (left)
        compare(p, b, lo, mid - 1);
    if (mid < hi)
        compare(p, b, mid, hi);
}

/* Decides between the choices lo to hi. If a conditional jump would not reach the slots, the halves are blocks of
 * their own. */
static void decide(struct kr_bpf *p, const struct choice *c, u32 lo, u32 hi, u32 *label) {
    if (hi - lo + SLOTS > REACH) {
        u32 mid = (lo + hi + 1) / 2, upper;
        kr_bpf_put(p, BPF_JMP | BPF_JGE | BPF_K, c[mid].first, 0, 1);
        kr_bpf_put(p, BPF_JMP | BPF_JA, 0, 0, 0);
        upper = p->n;
        decide(p, c, lo, mid - 1, label);
        kr_bpf_here(p, upper);
        decide(p, c, mid, hi, label);
        return;
    }
    struct block b = {.c = c, .end = p->n + hi - lo};
    for (u32 i = lo; i <= hi; i++)
        if (slot_of(&b, c[i].to) == b.nslots) {
            if (b.nslots == SLOTS) {
                p->failed = 1;
                return;
            }
            b.slot[b.nslots++] = c[i].to;
        }
    if (lo < hi)
        compare(p, &b, lo, hi);
    for (u32 i = 0; i < b.nslots; i++) {
        u32 to = b.slot[i];
        if (to >> 24 != KR_BPF_TO(0) >> 24) {
            kr_bpf_return(p, to);
            continue;
        }
        u32 *chain = &label[to - KR_BPF_TO(0)];
        kr_bpf_put(p, BPF_JMP | BPF_JA, *chain, 0, 0);
        *chain = p->n;
    }
}

/* Appends a choice to n others; returns the new number, which is above CHOICES once there is no room. A choice
 * that leads to the same place as the last one is a part of it. */
static u32 choice(struct choice *c, u32 n, u32 first, u32 to) {
    if (n > CHOICES)
        return n;
    if (n && c[n - 1].first == first)
        n--;
    if (n && c[n - 1].to == to)
        return n;
    if (n < CHOICES)
        c[n] = (struct choice){first, to};
    return n + 1;
}

static void decide_all(struct kr_bpf *p, const struct choice *c, u32 n, u32 *label) {
    if (n > CHOICES)
        p->failed = 1;
    if (!p->failed)
        decide(p, c, 0, n - 1, label);
}

void kr_bpf_ranges(struct kr_bpf *p, const struct kr_range *r, u32 n, u32 in, u32 out) {
    struct choice c[CHOICES];
    u32 on = 0, k = choice(c, 0, 0, out);
    for (u32 i = 0; i < n; i++) {
        k = choice(c, k, r[i].first, in);
        if (r[i].last != ~0u)
            k = choice(c, k, r[i].last + 1, out);
    }
    decide_all(p, c, k, &on);
    kr_bpf_here(p, on);
}

void kr_bpf_numbers(struct kr_bpf *p, const u8 *what, u32 count, const u32 *to, u32 *label) {
    struct choice c[CHOICES];
    u32 k = 0;
    for (u32 i = 0; i < count; i++)
        k = choice(c, k, i, to[what[i]]);
    decide_all(p, c, choice(c, k, count, to[0]), label);
}

void kr_bpf_below(struct kr_bpf *p, u32 i, u32 j, u32 to_high, u32 refuse) {
    enum { LOW };                   /* scratch memory */
    kr_bpf_load(p, KR_BPF_HIGH(j)); /* neither upper half is above to_high, so their sum does not wrap */
    kr_bpf_return_if(p, BPF_JGT, to_high, refuse);
    kr_bpf_load(p, KR_BPF_HIGH(i));
    kr_bpf_return_if(p, BPF_JGE, to_high, refuse);
    kr_bpf_load(p, KR_BPF_LOW(i));
    kr_bpf_put(p, BPF_MISC | BPF_TAX, 0, 0, 0);
    kr_bpf_load(p, KR_BPF_LOW(j));
    kr_bpf_put(p, BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0);
    kr_bpf_put(p, BPF_ST, LOW, 0, 0);
    kr_bpf_put(p, BPF_JMP | BPF_JGE | BPF_X, 0, 2, 0); /* the sum is not below the addend: no carry */
    kr_bpf_put(p, BPF_LD | BPF_IMM, 1, 0, 0);
    kr_bpf_put(p, BPF_JMP | BPF_JA, 1, 0, 0);
    kr_bpf_put(p, BPF_LD | BPF_IMM, 0, 0, 0);
    kr_bpf_put(p, BPF_MISC | BPF_TAX, 0, 0, 0);
    kr_bpf_load(p, KR_BPF_HIGH(i));
    kr_bpf_put(p, BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0);
    kr_bpf_put(p, BPF_MISC | BPF_TAX, 0, 0, 0);
    kr_bpf_load(p, KR_BPF_HIGH(j));
    kr_bpf_put(p, BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0);
    kr_bpf_return_if(p, BPF_JGT, to_high, refuse);
    u32 at = kr_bpf_begin(p, BPF_JEQ, to_high); /* the range ends exactly at the limit, or beyond it */
    kr_bpf_put(p, BPF_LD | BPF_MEM, LOW, 0, 0);
    kr_bpf_return_unless(p, BPF_JEQ, 0, refuse);
    kr_bpf_end(p, at);
}
