/* SPDX-License-Identifier: Apache-2.0
 *
 * An assembler for classic BPF programs over struct seccomp_data (seccomp(2); opcodes: linux/bpf_common.h).
 * The filters that the monitor gives to the kernel are made with it (filter/jail.c, filter/profile.c). Pure.
 *
 * Conditional jumps of BPF reach 255 instructions; what reaches farther is made with BPF_JA. A program that
 * does not fit, or a jump that is too far, sets `failed`, and the program must not be used.
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

/* Appends an instruction. k: constant; jt, jf: instructions skipped when the condition holds, or not. */
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

/* `if (A op k) { body }`: begin returns what end needs. A body that does not end in a return goes on behind
 * itself. */
u32 kr_bpf_begin(struct kr_bpf *p, u16 op, u32 k);
void kr_bpf_end(struct kr_bpf *p, u32 at);

/* Sorts n ranges and joins those that meet; their number then. */
u32 kr_ranges_join(struct kr_range *r, u32 n);

/* Returns `in` when A lies in one of the n ranges (ascending, apart from each other), else `out`; with
 * KR_BPF_ON for one of them the program goes on behind. A binary tree: 2 * n + 1 comparisons in the program,
 * of which a run makes log2. */
#define KR_BPF_ON 0xffffffffu
void kr_bpf_ranges(struct kr_bpf *p, const struct kr_range *r, u32 n, u32 in, u32 out);

/* Returns `refuse` unless argument i lies below to_high << 32 and argument i + argument j not beyond it. */
void kr_bpf_below(struct kr_bpf *p, u32 i, u32 j, u32 to_high, u32 refuse);

#endif
