/* SPDX-License-Identifier: Apache-2.0
 *
 * `krun trace`: records of system calls for a reader on the host, while the container runs (krun/kvm/watch.py).
 *
 * The way is the board (board.h), which no payload reaches:
 *
 *   the reader on the host                           every monitor of the container
 *   makes the part of the board behind the counters:
 *   control, ring of records
 *   header.watch = a number, not 0             -->   reads the word at each call (kr_observe_word): 0 costs one load
 *   reads records in their order, and sets     <--   copies a record of each call that the control asks for into the
 *   control.tail                                     ring; if the ring is full, counts it in control.lost
 *   header.watch = 0, and cuts that part off   -->   a write that comes late fails, without an effect
 *
 * - No monitor ever waits for the reader. A reader that has died leaves the word: after KR_OBSERVE_PATIENCE lost records
 *   that it has not taken note of, a monitor clears the word.
 * - Each record belongs to one writer from the count of `head` to the store of `seq`. A writer that is killed in between
 *   leaves a gap, which the reader passes over after a while.
 * - The part is mapped by a process when it first sees the word, with its own copy of the board's descriptor. Everything in it
 *   can be written by every monitor of the container: it is copied once, and decides only what is written into the ring.
 * - With a list of processes, the children that a process on it makes from then on are traced, too: proc->watched is copied by
 *   a fork, and handed on by an execve.
 *
 * State: the address of the mapping (observe.c, atomic); kr_proc.watched, kr_proc.watches (atomic). Locks: none.
 */
#ifndef KR_OBSERVE_H
#define KR_OBSERVE_H

#include "board.h"
#include "exec.h"
#include "../machine/usercopy.h"
#include <asm/siginfo.h>

#define KR_OBSERVE_AT ((KR_BOARD_COUNTS_AT + KR_BOARD_COUNTS * 8u + KR_PAGE - 1) & ~(u32)(KR_PAGE - 1))
#define KR_OBSERVE_RECORD 512u
#define KR_OBSERVE_RECORDS 4096u
#define KR_OBSERVE_SIZE ((u32)KR_PAGE + KR_OBSERVE_RECORD * KR_OBSERVE_RECORDS)
#define KR_OBSERVE_PATIENCE 65536u
#define KR_OBSERVE_PIDS 16u
#define KR_OBSERVE_CALLS 512u
#define KR_OBSERVE_ERRNOS 192u

/* Bit 0 of the word: the calls that are asked for must not be completed inside the guest (local/local.h). */
#define KR_OBSERVEF_EXITS 1u

/* Bits of kr_observe_control.flags. */
#define KR_OBSERVEF_FAILED 1u  /* only calls that failed with one of `errnos` */
#define KR_OBSERVEF_SIGNALS 2u /* signals, too, and the ends of threads */

/* The page at KR_OBSERVE_AT. Places: krun/kvm/watch.py. */
struct kr_observe_control {
    u32 head; /* number of the next record: monitors */
    u32 pad0[15];
    u32 tail; /* number of the next record to be read: the reader */
    u32 pad1[15];
    u32 lost; /* records for which there was no room: monitors */
    u32 pad2[15];
    u32 noted; /* `lost` as the reader has seen it */
    u32 flags, npids;
    u32 shown; /* bytes of a buffer that a record shows */
    u32 pids[KR_OBSERVE_PIDS];
    u64 calls[KR_OBSERVE_CALLS / 64]; /* a bit for each number; higher numbers count as the last bit */
    u64 errnos[KR_OBSERVE_ERRNOS / 64];
};

/* A record. Behind it, up to `size`: items of two bytes (number of the argument; length of the item), two bytes of the
 * number of bytes that the argument has in all (at most 65535), and the item's bytes. */
struct kr_observe_record {
    u32 seq;         /* the record's number plus 1; stored last */
    u32 size;        /* bytes of the record, items included */
    u64 began, took; /* CLOCK_MONOTONIC, ns */
    s64 ret;
    u32 pid, tid; /* as the process itself sees them */
    u32 nr;
    u32 flags; /* KR_OBSERVEF_* of a record */
    u64 args[6];
};
#define KR_OBSERVEF_GONE 1u   /* a call that does not return, if it succeeds: there is no result */
#define KR_OBSERVEF_ENDS 2u   /* only the end of the thread is asked for, not this call (exit, exit_group) */
#define KR_OBSERVEF_SIGNAL 4u /* no call: signal nr; args: the first bytes of its siginfo_t */
#define KR_OBSERVEF_KILLED 8u /* no call: the process dies of signal nr */

/* The word of the header: 0 while nobody traces the container. */
static inline u32 kr_observe_word(void) {
    if (!kr_board_base)
        return 0;
    long word = kr_load32_raw((const u32 *)(kr_board_base + offsetof(struct kr_board_header, watch)));
    return word > 0 ? (u32)word : 0;
}

/* The call t->nr begins, and the word is not 0. Returns the time, ns; 0: no record of it is asked for. */
u64 kr_observe_begin(struct kr_task *t, u32 word);
/* It has ended. Makes no record if `began` is 0, or if the word has changed meanwhile. */
void kr_observe_end(struct kr_task *t, u32 word, long ret, u64 began);
/* The program gets a signal: its handler, or a fault that it dies of. One load while nobody traces the container. */
void kr_observe_signal(struct kr_task *t, const siginfo_t *si);
/* The process dies of sig. Signals that the monitor does not catch end the process in the kernel, without a record. */
void kr_observe_killed(struct kr_task *t, int sig);
/* Tells the next program that the process is on the list by its descent, and takes it from the boot block. */
void kr_exec_save_watch(const struct kr_exec_save *x);
void kr_observe_load(struct kr_task *t);

#endif
