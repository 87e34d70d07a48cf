/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace in the format of strace(1), and counts of the calls.
 */
#ifndef KR_TRACE_H
#define KR_TRACE_H

#include "../machine/vmm.h"

extern u32 kr_trace_on; /* 0: a call costs one test more */

/* Why a thread left the guest, as --count shows it. */
enum kr_exit_cause {
    KR_EXIT_OUT,         /* a system call, by the OUT of the stub */
    KR_EXIT_WINDOW,      /* a system call, by the interrupt window (machine/window.h) */
    KR_EXIT_WINDOW_LOST, /* the thread had asked for the window, and something else came first */
    KR_EXIT_PF,          /* #PF: the page tables have no such page */
    KR_EXIT_EXCEPTION,   /* another exception, the first system call of a VM on PVM included */
    KR_EXIT_HOST_FAULT,  /* the host refuses a page that the page tables have */
    KR_EXIT_INTERRUPT,   /* a signal of the host */
    KR_EXIT_OTHER,
    KR_EXIT_CAUSES
};
void kr_trace_cause(enum kr_exit_cause cause);

u64 kr_trace_enter(struct kr_task *t); /* returns the start time, ns */
void kr_trace_exit(struct kr_task *t, long ret, u64 started);
void kr_trace_summary(void);    /* counts and times, to FD_LOG, at exit of the process */
void kr_trace_after_fork(void); /* in a fork child: its own counts start at 0 */
void kr_count_unknown(u64 nr);  /* unknown call: counted, logged once per number */

#endif
