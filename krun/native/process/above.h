/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layers above give to this one: the only calls that go up from process/. Each is declared here, and the
 * header of the file that defines it includes this one.
 */
#ifndef KR_PROCESS_ABOVE_H
#define KR_PROCESS_ABOVE_H

#include "../machine/vmm.h"

struct open_how;

/* ---- view/procfs.c ---- */

/* openat2(2) for the payload. path is a private copy. Descriptor or -errno or -KR_ERESTART. */
long kr_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *how);

/* ---- filter/seccomp.c ---- */

/* A new task gets its maker's filters and no_new_privs. Locked: mm->lock, in which the task is put on the
 * list. */
void kr_seccomp_inherit(struct kr_task *child, struct kr_task *t);

/* A task that ends gives its filters up. Locked: mm->lock, or nobody else runs. */
void kr_seccomp_drop(struct kr_task *t);

/* 0 none, 1 strict, 2 filter: /proc/self/status and PR_GET_SECCOMP. */
int kr_seccomp_mode(struct kr_task *t);

/* How many filters: /proc/self/status. Locked: mm->lock, or t is the calling thread's. */
u32 kr_seccomp_count(struct kr_task *t);

/* For execve: writes all programs as KR_BOOT_SECCOMP records, oldest first, through emit(). */
void kr_seccomp_save(struct kr_task *t, void (*emit)(void *ctx, u16 tag, const void *data, u32 len),
                     void *ctx);

/* ---- filter/jail.c ---- */

/* Whether this process is under the filters: its successors are, too. */
int kr_jailed(void);

#endif
