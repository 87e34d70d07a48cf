/* SPDX-License-Identifier: Apache-2.0
 * What names a task in the word of a lock (lib/kr_lock.h). */
#ifndef KR_HOLDER_H
#define KR_HOLDER_H

#include "../lib/above.h"
#include "../machine/vmm.h"

/* Learns t->holder. Called on t's own thread, which holds no lock, before it takes the first lock that it shares with
 * another process. */
void kr_holder_learn(struct kr_task *t);

/* State (a letter) and start time (clock ticks) of a process: fields 3 and 22 of the text of its stat
 * (proc_pid_stat(5)). 0, or -ESRCH: the text has no such fields. */
int kr_stat_parse(const char *text, char *state, u64 *start);
/* The parent (field 4) in such a text; 0: it has none, or one outside of the pid namespace. */
u32 kr_stat_parent(const char *text);
/* Its processor time in clock ticks (fields 14 and 15). */
u64 kr_stat_cpu(const char *text);
/* CLOCK_BOOTTIME now, in clock ticks. */
u64 kr_stat_now(void);

#endif
