/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace in the format of strace(1), and counts of the calls.
 */
#ifndef KR_TRACE_H
#define KR_TRACE_H

#include "../machine/vmm.h"

extern u32 kr_trace_on; /* 0: a call costs one test more */

u64 kr_trace_enter(struct kr_task *t); /* returns the start time, ns */
void kr_trace_exit(struct kr_task *t, long ret, u64 started);
void kr_trace_summary(void);    /* counts and times, to FD_LOG, at exit of the process */
void kr_trace_after_fork(void); /* in a fork child: its own counts start at 0 */
void kr_count_unknown(u64 nr);  /* unknown call: counted, logged once per number */

#endif
