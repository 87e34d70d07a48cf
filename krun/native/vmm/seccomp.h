/* SPDX-License-Identifier: Apache-2.0
 * The OCI profile's filter and those the payload installs (seccomp(2), prctl(PR_SET_SECCOMP)): classic BPF
 * over struct seccomp_data, checked as the kernel checks it, evaluated in dispatch before any host call is
 * made. */
#ifndef KR_SECCOMP_H
#define KR_SECCOMP_H

#include "vmm.h"

struct kr_seccomp; /* a chain, newest first, immutable once published; shared with children (reference count)
                    */

/* Adds a program of n instructions (monitor memory). 0, -EINVAL, -ENOMEM. */
long kr_seccomp_add(struct kr_proc *p, const void *insns, u32 n, u32 flags);
/* Strict mode (SECCOMP_SET_MODE_STRICT). */
long kr_seccomp_strict(struct kr_proc *p);
/* The filters' verdict on t->nr/t->args at t's rip: SECCOMP_RET_* with data, most restrictive of the chain.
 */
u32 kr_seccomp_check(struct kr_task *t);
/* 0 none, 1 strict, 2 filter: /proc/self/status and PR_GET_SECCOMP. */
int kr_seccomp_mode(struct kr_proc *p);
/* How many filters: /proc/self/status. */
u32 kr_seccomp_count(struct kr_proc *p);
/* For execve: writes all programs as KR_BOOT_SECCOMP records, oldest first, through emit(). */
void kr_seccomp_save(struct kr_proc *p, void (*emit)(void *ctx, u16 tag, const void *data, u32 len),
                     void *ctx);

/* seccomp(2) and prctl(PR_SET_SECCOMP): bodies. Both check no_new_privs (or CAP_SYS_ADMIN) first. Threads:
 * Linux keeps filters per thread; here they are the process's, i.e. every call behaves as with
 * SECCOMP_FILTER_FLAG_TSYNC. */
long kr_seccomp_call(struct kr_task *t, u32 op, u32 flags, u64 ptr);
long kr_seccomp_prctl(struct kr_task *t, u64 mode, u64 ptr);

/* The checker and the evaluator alone (pure; tests/native). insns: struct sock_filter[n]; data: struct
 * seccomp_data. */
int kr_bpf_check(const void *insns, u32 n);                 /* 0 or -EINVAL */
u32 kr_bpf_run(const void *insns, u32 n, const void *data); /* of a checked program */

#endif
