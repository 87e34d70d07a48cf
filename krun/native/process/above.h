/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of higher layers that process/ calls: the only calls that go up from this folder. Each
 * function is declared here, and the header of the file that defines it includes this one.
 */
#ifndef KR_PROCESS_ABOVE_H
#define KR_PROCESS_ABOVE_H

#include "../machine/vmm.h"

struct open_how;

/* ---- view/procfs.c ---- */

/* openat2(2) for the payload. path is a private copy. Descriptor or -errno or -KR_ERESTART. */
long kr_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *how);

/* ---- filter/seccomp.c ---- */

/* Gives a new task the filters and the no_new_privs of the task that makes it. Lock: mm->lock, held until the
 * task is on mm->tasks. */
void kr_seccomp_inherit(struct kr_task *child, struct kr_task *t);

/* Drops the filters of a task that ends. Lock: mm->lock, or no other thread runs. */
void kr_seccomp_drop(struct kr_task *t);

/* The task's seccomp mode, as /proc/self/status and PR_GET_SECCOMP show it: 0 none, 1 strict, 2 filter. */
int kr_seccomp_mode(struct kr_task *t);

/* The number of the task's filters, as /proc/self/status shows it. Lock: mm->lock, or t is the calling
 * thread's task. */
u32 kr_seccomp_count(struct kr_task *t);

/* Writes all filters of the task as KR_BOOT_SECCOMP records, oldest first, by calls of emit(). execve uses
 * it. */
void kr_seccomp_save(struct kr_task *t, void (*emit)(void *ctx, u16 tag, const void *data, u32 len),
                     void *ctx);

/* ---- filter/jail.c ---- */

/* Whether the monitor's own filters bind this process. If they do, they bind every process that comes from
 * it. */
int kr_jailed(void);

/* ---- local/facts.c ---- */

/* What the guest's code knows of t is not true any more (its filters): the code completes nothing until t itself has
 * decided anew. t may be another thread of the process. Lock: mm->lock. */
void kr_local_changed(struct kr_task *t);

/* ---- local/actions.c ---- */

/* The thread t has changed the action of its process for sig. Lock: sig_lock. */
void kr_local_action(struct kr_task *t, int sig);

/* ---- local/sockets.c ---- */

/* t's call names the descriptor; a: its checked arguments. Called before the call is made, by its own thread, without a lock,
 * and only if mm->sockets is set; as the following ones. */
void kr_sockets_named(struct kr_task *t, u64 fd, const u64 a[6]);
/* t's call sends a copy of the descriptor to somebody. */
void kr_sockets_passed(struct kr_task *t, u64 fd);
/* t's call has made another descriptor of it. What another thread copies while the holder's call makes a socket at the number is
 * seen here or by kr_fd_in_call. Called before the call's names are taken away; checks mm->sockets itself. */
void kr_sockets_copied(struct kr_task *t, u64 fd);
/* t's call copies descriptors that it does not name, or has made the filters of a thread stricter. */
void kr_sockets_forget(struct kr_task *t);
/* Around the making of a process (not of a thread) by t. */
void kr_sockets_clone(struct kr_task *t, int begins);
/* t ends. Lock: mm->lock. */
void kr_sockets_release(struct kr_task *t);

/* ---- local/enroll.c ---- */

/* t is about to make another thread. An only thread becomes the one that completes calls on sockets, because later it is too late:
 * in a program with threads of the runtime's, the first thread has the event loop. t->local.possible is set. */
void kr_sockets_thread(struct kr_task *t);

/* A wait has found fd ready; events: as poll(2) tells them. */
void kr_sockets_ready(struct kr_task *t, s32 fd, u32 events);

/* ---- local/opened.c ---- */

/* A call of t has opened the file of this path, as the monitor has read it. t->local.holder is set. */
void kr_file_path(struct kr_task *t, const char *path);

/* ---- local/queue.c ---- */

/* Whether the call on fd fails because a send that was completed inside the guest failed later; *ret: its result. */
int kr_sockets_fails(struct kr_task *t, u64 fd, const u64 a[6], long *ret);
/* Called by the host's signal handler for a SIGBUS: whether it is the timer's. */
int kr_queue_tick(struct kr_task *t, const siginfo_t *si);
/* Whether id is the timer's: the payload has no timer of that number. */
#define KR_QUEUE_TIMER 0x7fffffff
int kr_queue_is_timer(const struct kr_task *t, u64 id);

#endif
