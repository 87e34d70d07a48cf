/* SPDX-License-Identifier: Apache-2.0
 *
 * The board: which processes of a container are monitors, in a file that all its monitors map.
 *
 * krun makes the file beside state.json, and hands its descriptor to the first monitor and to those of `exec`
 * (abi/boot.h); it lies in nobody's root, and the payload cannot reach it. One entry a process, found by its
 * pid: enough to know whom a monitor may ask (ask.h), and what of status the kernel's text does not say of
 * others.
 *
 * Every monitor of the container can write all of it: an entry is copied once, and nothing in it is more than
 * a hint. The file may be cut short or its pages refused (a full file system): it is only touched through the
 * copy routines that survive a fault.
 */
#ifndef KR_BOARD_H
#define KR_BOARD_H

#include "../machine/vmm.h"

#define KR_BOARD_MAGIC 0x314452414f42524bULL /* "KRBOARD1" */
#define KR_BOARD_ENTRIES 16384u
#define KR_BOARD_SIZE (32u + KR_BOARD_ENTRIES * 32u)

struct kr_board_entry {
    u32 pid;     /* in the process's own pid namespace; 0: free */
    u32 flags;   /* KR_BOARDF_* */
    u64 since;   /* CLOCK_BOOTTIME ns of the entry: the process is older */
    u64 caught;  /* signal actions of the payload: handler */
    u64 ignored; /* SIG_IGN */
};

#define KR_BOARDF_NNP 1u          /* the payload has no_new_privs */
#define KR_BOARDF_SECCOMP_SHIFT 1 /* 2 bits: mode */
#define KR_BOARDF_USERNS 8u       /* it is in another user namespace than the container gave it */
#define KR_BOARDF_ASKED 16u       /* another monitor has asked the process; stays */
#define KR_BOARDF_FILTERS_SHIFT 8 /* their number */

/* Maps the board (kr_boot.fd_board) and enters the process of the calling task. Without one: nothing. After
 * kr_signal_init. */
void kr_board_open(struct kr_task *t);
/* Enters the process of the calling task: after a fork or vfork, in the child. */
void kr_board_enter(struct kr_task *t);
/* Writes what of the calling task's process others may read, after a change of its signal actions, filters,
 * no_new_privs. */
void kr_board_update(struct kr_task *t);
/* The process ends. */
void kr_board_leave(struct kr_task *t);
/* The entry of another process that lives now, given the time of its start in clock ticks (/proc/PID/stat). 0
 * or -ENOENT. */
int kr_board_find(u32 pid, u64 start, struct kr_board_entry *out);
/* Notes at that entry that its process is asked: before the signal that asks. */
void kr_board_ask(u32 pid, u64 start);
/* Whether somebody ever asked the calling task's process. For a signal handler: it does not touch the mapping. */
int kr_board_asked(struct kr_task *t);
/* What tells a request of a monitor from a signal of a payload's; 0: no board. */
u64 kr_board_cookie(void);

#endif
