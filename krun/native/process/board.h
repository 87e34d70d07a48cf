/* SPDX-License-Identifier: Apache-2.0
 *
 * The board: a file that all monitors of a container map. It says which processes of the container are
 * monitors.
 *
 * krun makes the file beside state.json and gives its descriptor to the first monitor and to the monitors of
 * `exec` (abi/boot.h). The file lies in no container's root, and the payload cannot reach it. Each process
 * has one entry, found by its pid. The entry says whether a monitor may ask the process (view/ask.h), and it
 * has the fields of /proc/PID/status that the kernel does not know. Behind the entries are the last words of
 * monitors that have ended. Behind them are the counters of the container, for `krun events`: each thread adds its own counts
 * (kr_board_count). Nothing in a monitor depends on them. Behind the counters is the ring of `krun trace` (observe.h).
 *
 * Every monitor of the container can write the whole file. Therefore an entry is copied once, and its content
 * is a hint only. The file may be truncated, or its pages refused by a full file system. Therefore it is
 * touched only by the copy routines that survive a fault.
 */
#ifndef KR_BOARD_H
#define KR_BOARD_H

#include "../machine/vmm.h"

/* "KRBOARD3". A change of the layout, or of what monitors say to each other (view/ask.h), raises the last digit: monitors of two
 * versions must not ask each other, because a question that is not understood ends the process that is asked. */
#define KR_BOARD_MAGIC 0x334452414f42524bULL
#define KR_BOARD_ENTRIES 16384u
#define KR_BOARD_WORDS 16u
#define KR_BOARD_WORDS_AT (32u + KR_BOARD_ENTRIES * 32u)
#define KR_BOARD_COUNTS_AT (KR_BOARD_WORDS_AT + KR_BOARD_WORDS * 256u)
#define KR_BOARD_COUNTS 32u
#define KR_BOARD_SIZE (KR_BOARD_COUNTS_AT + KR_BOARD_COUNTS * 8u)

/* magic, cookie, number of records that were written, number of the container's user namespace (process/ns.h; the container's first
 * monitor writes it); entries; records; counters. Sizes and places: krun/kvm/board.py. */
struct kr_board_header {
    u64 magic, cookie;
    u32 said, userns;
    u32 watch,
        blind; /* `krun trace`: not 0 while it is attached; processes that cannot tell it (process/observe.h) */
};

/* The address of the header in this process; 0: no board. */
extern u64 kr_board_base;

struct kr_board_entry {
    u32 pid;     /* the pid, in the pid namespace of the monitors' procfs; 0: free entry */
    u32 flags;   /* KR_BOARDF_* */
    u64 since;   /* CLOCK_BOOTTIME of the entry, ns: the process is older */
    u64 caught;  /* signals for which the payload has a handler */
    u64 ignored; /* signals that the payload ignores */
};

/* Why a monitor ended. The last KR_BOARD_WORDS records stay. */
struct kr_board_words {
    u32 pid;        /* as in an entry */
    char text[252]; /* ends at a NUL, or is full */
};

/* The container's counters, u64 each; the rest is unused. A signal that nobody catches, SIGKILL above all, loses what its process
 * has not added yet. */
enum kr_board_counter {
    KR_BOARDC_EXITS = 0,   /* returns from KVM */
    KR_BOARDC_REFUSED = 1, /* calls that syscalls.def refuses (NO) */
    KR_BOARDC_UNKNOWN = 2, /* calls that it does not know */
    KR_BOARDC_SITES = 3,   /* patched sites (machine/site.h) */
    KR_BOARDC_PATCHED = 4, /* calls through them */
    KR_BOARDC_DONE = 8,    /* + enum kr_way: calls that were completed inside the guest (local/local.h) */
    KR_BOARDC_DECLINED =
        16, /* + enum kr_way: those for which there was a way, and that exited all the same */
    KR_BOARDC_CALLS =
        24, /* not counters: a bit for each number below KR_BOARD_CALLS, of the refused and unknown calls */
};
#define KR_BOARD_CALLS 512u
#define KR_BOARD_EVERY 1024u /* exits after which a thread adds its counts */

#define KR_BOARDF_NNP 1u          /* the payload has no_new_privs */
#define KR_BOARDF_SECCOMP_SHIFT 1 /* 2 bits: mode */
#define KR_BOARDF_USERNS 8u       /* the process is in another user namespace than the container gave it */
#define KR_BOARDF_ASKED 16u       /* another monitor has asked the process; never cleared */
#define KR_BOARDF_FILTERS_SHIFT 8 /* number of filters */

/* Notes the namespaces of the calling task's process (ns.h), maps the board (kr_boot.fd_board) and enters the process, if there is
 * a board. Called after kr_signal_init. */
void kr_board_open(struct kr_task *t);
/* Enters the process of the calling task, unless it is in a pid namespace of its own (KR_PROCF_NESTED): its number is another
 * process's on the board. Called in the child after a fork or vfork. */
void kr_board_enter(struct kr_task *t);
/* Updates the entry of the calling task's process. Called after a change of its signal actions, filters or
 * no_new_privs. */
void kr_board_update(struct kr_task *t);
/* Frees the entry of a process that ends. */
void kr_board_leave(struct kr_task *t);
/* Writes why the calling process's monitor ends, for krun, which reports it when it takes the container down. Neither a limit of the
 * payload's nor a reader can prevent it, as they can with the log and with stderr. Does nothing without a board. */
void kr_board_say(const char *text);
/* Adds what the calling task, and the settled calls of its process, have counted since the last time to the container's counters. Called every KR_BOARD_EVERY exits, and
 * before the task ends or executes a program. Does nothing without a board. */
void kr_board_count(struct kr_task *t);
/* Counts a refused or unknown call, and notes its number. Does nothing without a board. */
void kr_board_refused(u64 nr, enum kr_board_counter counter);
/* What a forked child has not counted itself. */
void kr_board_after_fork(struct kr_task *t);
/* Copies the entry of another process that lives. start: the start time of the process in clock ticks
 * (/proc/PID/stat). 0 or -ENOENT. */
int kr_board_find(u32 pid, u64 start, struct kr_board_entry *out);
/* Records in that entry that its process is asked. Called before the signal that asks is sent. */
void kr_board_ask(u32 pid, u64 start);
/* Whether a monitor has ever asked the calling task's process. A signal handler may call it, because it does not
 * touch the mapping. */
int kr_board_asked(struct kr_task *t);
/* The key by which monitors recognise each other's messages; 0: no board. It never leaves a monitor. */
u64 kr_board_cookie(void);
/* The proof that a monitor of this container has made a message: SipHash-2-4 of the message under the cookie. A
 * proof that somebody overhears is of no use for any other message. request: the question and its number;
 * pids: who asks (upper half) and who answers. A signal handler may call it. */
enum kr_tag { KR_TAG_QUESTION = 1, KR_TAG_ANSWER };
u64 kr_board_tag(enum kr_tag kind, u64 request, u64 pids);
/* SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF") of n words, key k0 k1. Pure. */
u64 kr_siphash(u64 k0, u64 k1, const u64 *words, u32 n);

#endif
