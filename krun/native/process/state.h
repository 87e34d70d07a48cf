/* SPDX-License-Identifier: Apache-2.0
 * What fork, vfork and execve do to the monitor's state, from the rows of state.def. */
#ifndef KR_STATE_H
#define KR_STATE_H

#include "../machine/vmm.h"

/* Called before and after a fork, on the forking thread, with all signals blocked. After kr_state_before_fork
 * every lock of the table is held, until kr_state_fork_parent or kr_state_fork_child. */
void kr_state_before_fork(struct kr_task *t);
void kr_state_fork_parent(struct kr_task *t);
void kr_state_fork_child(struct kr_task *t);
/* Called for the first task t of a new process on the same memory. t->proc is a copy of the kr_proc of the
 * process that makes it. */
void kr_state_vfork(struct kr_task *t);

struct kr_core;
/* Called by the writer of a core file: collects what the file shows, row by row (core.h). */
void kr_state_core(struct kr_core *k);

struct kr_exec_save;
/* Called before an execve: emits what the next monitor must know, row by row (exec.h). */
void kr_state_exec(const struct kr_exec_save *x);

/* Bodies of rows that have no file of their own (process/task.c, machine/vm.c). */
void kr_process_alone(struct kr_task *t);
void kr_tasks_after_fork(struct kr_task *t);

#endif
