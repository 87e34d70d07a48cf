/* SPDX-License-Identifier: Apache-2.0
 *
 * An assembler for classic BPF programs over struct seccomp_data (seccomp(2); opcodes: linux/bpf_common.h).
 * The filters that the monitor gives to the kernel are made with it (filter/jail.c, filter/profile.c). Pure.
 *
 * A conditional jump of BPF reaches 255 instructions; longer jumps are made with BPF_JA. If a program does
 * not fit into its room, `failed` is set, and the program must not be used.
 *
 * Short programs matter: the kernel translates a program twice when it is installed (eBPF, machine code), and
 * runs it for every call number to find the calls that are allowed whatever their arguments are
 * (seccomp_cache_prepare() in kernel/seccomp.c).
 */
#ifndef KR_BPF_H
#define KR_BPF_H

#include "../lib/kr_lib.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

struct kr_bpf {
    struct sock_filter *f; /* room for `room` instructions */
    u32 n, room;
    u32 failed;
};

/* A range of numbers, both ends included. */
struct kr_range {
    u32 first, last;
};

/* Appends an instruction. k: the constant; jt, jf: instructions skipped if the condition is true or false. */
void kr_bpf_put(struct kr_bpf *p, u16 code, u32 k, u8 jt, u8 jf);

/* Offsets in struct seccomp_data, little endian. */
#define KR_BPF_LOW(i) (u32)(offsetof(struct seccomp_data, args) + 8 * (i))
#define KR_BPF_HIGH(i) (KR_BPF_LOW(i) + 4)

static inline void kr_bpf_load(struct kr_bpf *p, u32 offset) {
    kr_bpf_put(p, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static inline void kr_bpf_return(struct kr_bpf *p, u32 verdict) {
    kr_bpf_put(p, BPF_RET | BPF_K, verdict, 0, 0);
}

/* `if (A op k) return verdict`. op: BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET. */
static inline void kr_bpf_return_if(struct kr_bpf *p, u16 op, u32 k, u32 verdict) {
    kr_bpf_put(p, BPF_JMP | op | BPF_K, k, 0, 1);
    kr_bpf_return(p, verdict);
}

/* `if (!(A op k)) return verdict`. */
static inline void kr_bpf_return_unless(struct kr_bpf *p, u16 op, u32 k, u32 verdict) {
    kr_bpf_put(p, BPF_JMP | op | BPF_K, k, 1, 0);
    kr_bpf_return(p, verdict);
}

/* `if (A op k) { body }`. kr_bpf_begin returns the value for kr_bpf_end. A body without a return at its end
 * continues behind kr_bpf_end. */
u32 kr_bpf_begin(struct kr_bpf *p, u16 op, u32 k);
void kr_bpf_end(struct kr_bpf *p, u32 at);

/* Sorts n ranges and joins ranges that overlap or touch. Returns their new number. */
u32 kr_ranges_join(struct kr_range *r, u32 n);

/* Where a comparison may lead besides to a verdict: to label i, a chain of jumps whose target is not known yet.
 * A chain begins as 0. kr_bpf_here makes the next instruction the target of the chain. */
#define KR_BPF_TO(i) (0xff000000u | (i))
void kr_bpf_here(struct kr_bpf *p, u32 chain);

/* The program returns `in` if A lies in one of the n ranges (ascending, disjoint, at most KR_BPF_RANGES), else
 * `out`. If one of the two is KR_BPF_ON, the program continues behind the ranges in that case. The code is a
 * binary tree of at most 2 * n comparisons; a run makes log2 of them. */
#define KR_BPF_ON KR_BPF_TO(0)
#define KR_BPF_RANGES 200
void kr_bpf_ranges(struct kr_bpf *p, const struct kr_range *r, u32 n, u32 in, u32 out);

/* The same for a table of numbers: A goes to to[what[A]], and to to[0] from `count` on. to: verdicts, and
 * KR_BPF_TO(i) for label[i]. */
void kr_bpf_numbers(struct kr_bpf *p, const u8 *what, u32 count, const u32 *to, u32 *label);

/* The program returns `refuse` unless argument i is below to_high << 32 and the sum of arguments i and j is
 * at most to_high << 32. */
void kr_bpf_below(struct kr_bpf *p, u32 i, u32 j, u32 to_high, u32 refuse);

#endif
