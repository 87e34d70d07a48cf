/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of descriptors share: fdlimit.c (limits), fdslot.c (fixed numbers and slots), fdname.c (numbers
 * that calls name), fdtab.c (the table of dynamic numbers). Other files include fdtab.h.
 */
#ifndef KR_FDPLACE_H
#define KR_FDPLACE_H

#include "fdtab.h"
#include <linux/fcntl.h>
#include <linux/resource.h>

#define KR_FD_ROOM_ABOVE 64u /* distance of the monitor's numbers from the soft limit below them */

/* Where fixed numbers and slots are (fdslot.c). Constant after start, so that an answer cannot change. */
struct kr_fd_block {
    u32 base;   /* the lowest fixed number */
    u32 nslots; /* slots behind the fixed numbers */
    u32 span;   /* fixed numbers, slots and the plug; 0: not placed yet */
};
extern struct kr_fd_block kr_fd_block;

#define KR_FD_SPARE (kr_fd_block.base + KR_FD_AT_SPARE)
#define KR_FD_SLOT(i) (kr_fd_block.base + KR_FD_FIXED + (i))
#define KR_FD_PLUG KR_FD_SLOT(kr_fd_block.nslots)
#define KR_FD_BEHIND (KR_FD_PLUG + 1) /* the first number that is not constant */

/* Whether fd is a fixed number, a slot or the plug; whether fd is a slot. */
static inline int kr_fd_in_block(u32 fd) { return fd - kr_fd_block.base < kr_fd_block.span; }
static inline int kr_fd_in_slots(u32 fd) { return fd - KR_FD_SLOT(0) < kr_fd_block.nslots; }

/* ---- fdtab.c ---- */

/* Takes and gives back fdtab_lock. */
void kr_fdtab_hold(void);
void kr_fdtab_release(void);
/* kr_fd_hidden with fdtab_lock held. */
int kr_fd_hidden_locked(u32 fd);
/* Ends what kr_fd_hide_begin has begun, as kr_fd_hide_end, with the descriptor fd in `slot`. slot or -errno. */
long kr_fd_hide_slot(const struct kr_mm *mm, int fd, u32 slot);
/* Whether fd is in the table. Enters a plug into the table: 0 or -ENOMEM. fdtab_lock is held. */
int kr_fd_in_table(u32 fd);
int kr_fd_enter_plug(u32 fd);

/* ---- fdname.c: fdtab_lock and mm->lock are held, the range of the table is open; mm NULL: nobody else ---- */

/* Whether a call of a task of mm names fd. only_taken: as what it closes or replaces (close(2), dup2(2), kr_fd_shut). */
int kr_fd_named(const struct kr_mm *mm, u32 fd, int only_taken);
/* Puts a plug at every free number that a call names, so that the kernel gives none of them. 0 or -ENOMEM. */
int kr_fd_plug_named(const struct kr_mm *mm);
/* Duplicates fd, close-on-exec, to a number that no call names and that is not in the table. The number or
 * -errno. */
long kr_fd_dup_unnamed(const struct kr_mm *mm, int fd);
/* Closes what is at fd if it is the plug. */
void kr_fd_unplug(u32 fd);

/* ---- fdlimit.c ---- */

struct kr_rlimit_pair {
    u64 soft, hard;
};

/* RLIMIT_NOFILE of this process. A failure to read it gives 1024; a failure to set it has no effect. */
void kr_fd_get_limit(struct kr_rlimit_pair *r);
void kr_fd_set_limit(u64 soft, u64 hard);
/* The base that suits the limit *r. */
u32 kr_fd_choose_base(const struct kr_rlimit_pair *r);
/* System call nr(fd, a, b), which makes a descriptor, perhaps at or above the soft limit: there the kernel
 * gives no number (EMFILE; EBADF or EINVAL for a number that the call names). So the soft limit is raised for
 * the time of the call. number: the lowest number that the call may give; ~0: any. Called with fdtab_lock
 * held, or by the only thread. The call's result. */
long kr_fd_beyond_limit(long nr, u64 fd, u64 a, u64 b, u64 number);

/* ---- fdslot.c ---- */

/* In a fork child: fills the slots that other threads of the parent were using. */
void kr_fd_slots_after_fork(void);

#endif
