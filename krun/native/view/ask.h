/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the monitor of another process: what the kernel shows of a process only to those who may trace it
 * (proc(5): exe, cwd, root, fd, ns, maps, ...). Monitors are not dumpable, so the kernel refuses; and its
 * text would be the monitor's, not the payload's. The process answers itself.
 *
 *   asker                                              owner
 *   socket of a fresh abstract name
 *   SIGBUS, SI_QUEUE, value = the board's cookie  -->  interrupted wherever it is (below)
 *                                                      connects; the kernel says who listens (SO_PEERCRED)
 *                                                      may they? (kernel/ptrace.c, PTRACE_MODE_READ_FSCREDS)
 *   the kernel says who connected: the owner?     <--  one message, with a descriptor
 *
 * What is passed is an O_PATH descriptor (links), or a sealed memfd (texts, lists): links are read, files
 * looked at and opened with the asker's own rights, and no text of another monitor is parsed.
 *
 * Nothing exists for this while nobody asks: no thread, no memory, no work at fork or open. The price is that
 * the owner is interrupted, and must go on as if it had not been:
 *   - a call of the payload that had not begun, or that the kernel restarts, is given up with -KR_ERESTART
 * and executed again (lib/syscall.S);
 *   - so is one that ends with EINTR because of us; what remains of its time is put in place of its timeout
 *     (kr_ask_adjust), and if a signal of the payload's arrives before it waits again, it ends with EINTR
 * then (kr_ask_signal): no wake-up is lost;
 *   - a write that we cut short goes on (sys/table.c).
 * SIGBUS, because the host never blocks it, its disposition is always ours, and the payload's processes
 * cannot know the cookie. It is only sent to a process that stands on the board (board.h).
 *
 * A process that is stopped, or waits for a vfork child, does not answer: EACCES, after a second at most.
 *
 * Locks: ask_lock over one request, serve_lock over one answer; both outermost, asking before serving.
 */
#ifndef KR_ASK_H
#define KR_ASK_H

#include "procfs.h"
#include "../process/resume.h"

/* The object of a link of another process (w: exe, cwd, root, fd/N, ns/NAME), opened O_PATH, close-on-exec.
 * *mode: how a descriptor is open (F_GETFL). -EACCES: not allowed, or no answer; -ENOENT; -ESRCH: not a
 * monitor of this container; -KR_ERESTART. */
long kr_ask_link(struct kr_task *t, const struct kr_proc_name *w, u32 *mode);
/* The text of an entry (maps, smaps, environ, ...): a descriptor for reading, close-on-exec. Errors as above.
 */
long kr_ask_text(struct kr_task *t, const struct kr_proc_name *w);
/* The open descriptors of process pid: kr_alloc(*size) numbers, *n of them, ascending. 0 or errors as above.
 */
long kr_ask_fds(struct kr_task *t, u32 pid, u32 **fds, u32 *n, size_t *size);
/* Whether the monitor's procfs counts as the calling process does: not where that is in a pid namespace of the payload's own making. */
int kr_ask_same_numbers(void);
/* What the board says of process pid. 0 or -ESRCH. */
struct kr_board_entry;
long kr_ask_board(struct kr_task *t, u32 pid, struct kr_board_entry *out);

/* ---- the owner's side ---- */

/* Answers what was noted (t->asked). On the task's own thread, no lock held. */
void kr_ask_serve(struct kr_task *t);
/* In the child of a fork. */
void kr_ask_after_fork(void);

#endif
