/* SPDX-License-Identifier: Apache-2.0
 *
 * Classic BPF programs over struct seccomp_data, as seccomp(2) takes them: the checker (bpf_check_classic() in
 * net/core/filter.c and seccomp_check_filter() in kernel/seccomp.c) and the evaluator (___bpf_prog_run() in
 * kernel/bpf/core.c). Pure: no state, no locks. Programs come from the payload, so the checker's verdict is what keeps the
 * evaluator inside the program, its data and its scratch memory.
 */
#include "evaluate.h"
#include "../lib/kr_alloc.h"
#include <linux/audit.h>

/* ---- Checker ---- */

static int code_ok(const struct sock_filter *f) {
    switch (f->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        return f->k < sizeof(struct seccomp_data) && !(f->k & 3);
    case BPF_ALU | BPF_DIV | BPF_K:
        return f->k != 0;
    case BPF_ALU | BPF_LSH | BPF_K:
    case BPF_ALU | BPF_RSH | BPF_K:
        return f->k < 32;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX:
        return f->k < BPF_MEMWORDS;
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
    case BPF_ALU | BPF_ADD | BPF_K:
    case BPF_ALU | BPF_ADD | BPF_X:
    case BPF_ALU | BPF_SUB | BPF_K:
    case BPF_ALU | BPF_SUB | BPF_X:
    case BPF_ALU | BPF_MUL | BPF_K:
    case BPF_ALU | BPF_MUL | BPF_X:
    case BPF_ALU | BPF_DIV | BPF_X:
    case BPF_ALU | BPF_AND | BPF_K:
    case BPF_ALU | BPF_AND | BPF_X:
    case BPF_ALU | BPF_OR | BPF_K:
    case BPF_ALU | BPF_OR | BPF_X:
    case BPF_ALU | BPF_XOR | BPF_K:
    case BPF_ALU | BPF_XOR | BPF_X:
    case BPF_ALU | BPF_LSH | BPF_X:
    case BPF_ALU | BPF_RSH | BPF_X:
    case BPF_ALU | BPF_NEG:
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA:
    case BPF_JMP | BPF_JA:
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JEQ | BPF_X:
    case BPF_JMP | BPF_JGE | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_X:
    case BPF_JMP | BPF_JGT | BPF_K:
    case BPF_JMP | BPF_JGT | BPF_X:
    case BPF_JMP | BPF_JSET | BPF_K:
    case BPF_JMP | BPF_JSET | BPF_X:
        return 1;
    }
    return 0;
}

/* Whether every load from the scratch memory comes after a store to it on every path. Jumps go forward only,
 * so one pass does. */
static int loads_ok(const struct sock_filter *f, u32 n) {
    u16 *valid = kr_alloc(n * sizeof *valid); /* words stored on all paths to an instruction */
    if (!valid)
        return 0;
    memset(valid, 0xff, n * sizeof *valid);
    u16 have = 0;
    int ok = 1;
    for (u32 pc = 0; pc < n && ok; pc++) {
        have &= valid[pc];
        switch (f[pc].code) {
        case BPF_ST:
        case BPF_STX:
            have |= (u16)(1u << f[pc].k);
            break;
        case BPF_LD | BPF_MEM:
        case BPF_LDX | BPF_MEM:
            ok = have >> f[pc].k & 1;
            break;
        case BPF_JMP | BPF_JA:
            valid[pc + 1 + f[pc].k] &= have;
            have = 0xffff;
            break;
        case BPF_RET | BPF_K:
        case BPF_RET | BPF_A:
            break; /* as the kernel: what follows keeps the state */
        default:
            if (BPF_CLASS(f[pc].code) == BPF_JMP) {
                valid[pc + 1 + f[pc].jt] &= have;
                valid[pc + 1 + f[pc].jf] &= have;
                have = 0xffff;
            }
        }
    }
    kr_free(valid, n * sizeof *valid);
    return ok;
}

int kr_bpf_check(const void *insns, u32 n) {
    const struct sock_filter *f = insns;
    if (n == 0 || n > BPF_MAXINSNS)
        return -EINVAL;
    for (u32 pc = 0; pc < n; pc++) {
        if (!code_ok(&f[pc]))
            return -EINVAL;
        if (f[pc].code == (BPF_JMP | BPF_JA)) {
            if (f[pc].k >= n - pc - 1)
                return -EINVAL;
        } else if (BPF_CLASS(f[pc].code) == BPF_JMP) {
            if (pc + f[pc].jt + 1 >= n || pc + f[pc].jf + 1 >= n)
                return -EINVAL;
        }
    }
    if (BPF_CLASS(f[n - 1].code) != BPF_RET)
        return -EINVAL;
    return loads_ok(f, n) ? 0 : -EINVAL;
}

/* ---- Evaluator ---- */

/* Applies an arithmetic operation to *a. 0, or -1 for a division by zero, which ends the program with the value 0
 * (bpf_convert_filter() in net/core/filter.c). */
static int alu(u16 code, u32 *a, u32 v) {
    switch (BPF_OP(code)) {
    case BPF_ADD:
        *a += v;
        break;
    case BPF_SUB:
        *a -= v;
        break;
    case BPF_MUL:
        *a *= v;
        break;
    case BPF_DIV:
        if (!v)
            return -1;
        *a /= v;
        break;
    case BPF_AND:
        *a &= v;
        break;
    case BPF_OR:
        *a |= v;
        break;
    case BPF_XOR:
        *a ^= v;
        break;
    case BPF_LSH:
        *a <<= v & 31;
        break;
    case BPF_RSH:
        *a >>= v & 31;
        break;
    }
    return 0;
}

u32 kr_bpf_run(const void *insns, u32 n, const void *data) {
    const struct sock_filter *f = insns, *end = f + n;
    u32 a = 0, x = 0, mem[BPF_MEMWORDS];
    for (; f < end; f++) {
        u32 k = f->k, v = BPF_SRC(f->code) == BPF_X ? x : k;
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&a, (const u8 *)data + k, 4);
            break;
        case BPF_LD | BPF_W | BPF_LEN:
            a = sizeof(struct seccomp_data);
            break;
        case BPF_LDX | BPF_W | BPF_LEN:
            x = sizeof(struct seccomp_data);
            break;
        case BPF_LD | BPF_IMM:
            a = k;
            break;
        case BPF_LDX | BPF_IMM:
            x = k;
            break;
        case BPF_LD | BPF_MEM:
            a = mem[k];
            break;
        case BPF_LDX | BPF_MEM:
            x = mem[k];
            break;
        case BPF_ST:
            mem[k] = a;
            break;
        case BPF_STX:
            mem[k] = x;
            break;
        case BPF_MISC | BPF_TAX:
            x = a;
            break;
        case BPF_MISC | BPF_TXA:
            a = x;
            break;
        case BPF_RET | BPF_K:
            return k;
        case BPF_RET | BPF_A:
            return a;
        case BPF_JMP | BPF_JA:
            f += k;
            break;
        case BPF_ALU | BPF_NEG:
            a = 0 - a;
            break;
        default:
            if (BPF_CLASS(f->code) == BPF_JMP) {
                int yes = BPF_OP(f->code) == BPF_JEQ   ? a == v
                          : BPF_OP(f->code) == BPF_JGE ? a >= v
                          : BPF_OP(f->code) == BPF_JGT ? a > v
                                                       : (a & v) != 0;
                f += yes ? f->jt : f->jf;
                break;
            }
            if (alu(f->code, &a, v) < 0)
                return SECCOMP_RET_KILL_THREAD;
        }
    }
    return SECCOMP_RET_KILL_PROCESS; /* not reached: the last instruction returns */
}

int kr_bpf_allows(const void *insns, u32 n, u32 nr) {
    u32 a = 0;
    for (u32 pc = 0; pc < n; pc++) {
        const struct sock_filter *f = (const struct sock_filter *)insns + pc;
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (f->k == offsetof(struct seccomp_data, nr))
                a = nr;
            else if (f->k == offsetof(struct seccomp_data, arch))
                a = AUDIT_ARCH_X86_64;
            else
                return 0;
            break;
        case BPF_RET | BPF_K:
            return f->k == SECCOMP_RET_ALLOW;
        case BPF_JMP | BPF_JA:
            pc += f->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += a & f->k ? f->jt : f->jf;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f->k;
            break;
        default:
            return 0;
        }
    }
    return 0;
}
