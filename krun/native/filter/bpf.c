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

/* The tree of ranges. Its jumps to the end are BPF_JA instructions, chained by their k until the end is
 * known. */
struct tree {
    const struct kr_range *r;
    u32 in, out, chain;
};

/* The verdict of segment s. Odd segments are the ranges, even segments lie between them. */
static void leaf(struct kr_bpf *p, struct tree *t, u32 s) {
    u32 verdict = s & 1 ? t->in : t->out;
    if (verdict != KR_BPF_ON) {
        kr_bpf_return(p, verdict);
        return;
    }
    kr_bpf_put(p, BPF_JMP | BPF_JA, t->chain, 0, 0);
    t->chain = p->n;
}

/* The tree of segments lo to hi. The recursion is as deep as the tree: log2(2 * n + 1). */
static void grow(struct kr_bpf *p, struct tree *t, u32 lo, u32 hi) {
    if (lo == hi) {
        leaf(p, t, lo);
        return;
    }
    u32 mid = (lo + hi + 1) / 2; /* first segment of the upper half */
    const struct kr_range *r = &t->r[(mid - 1) / 2];
    u32 at = p->n;
    kr_bpf_put(p, BPF_JMP | BPF_JGE | BPF_K, mid & 1 ? r->first : r->last + 1, 0, 0);
    grow(p, t, lo, mid - 1);
    if (p->n - at - 1 > 255)
        p->failed = 1;
    if (!p->failed)
        p->f[at].jt = (u8)(p->n - at - 1);
    grow(p, t, mid, hi);
}

void kr_bpf_ranges(struct kr_bpf *p, const struct kr_range *r, u32 n, u32 in, u32 out) {
    struct tree t = {r, in, out, 0};
    grow(p, &t, 0, 2 * n);
    for (u32 at = t.chain, next; at && !p->failed; at = next) {
        next = p->f[at - 1].k;
        p->f[at - 1].k = p->n - at;
    }
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
