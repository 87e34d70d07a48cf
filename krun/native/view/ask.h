/* SPDX-License-Identifier: Apache-2.0
 *
 * One monitor asks the monitor of another process for an entry of /proc/PID. The kernel shows some entries
 * only to processes that may trace PID (proc(5): exe, cwd, root, fd, ns, maps, ...). Monitors are not
 * dumpable, so the kernel refuses these entries to all monitors without CAP_SYS_PTRACE. The kernel's text
 * would also describe the monitor, not the payload. Therefore the monitor of PID answers.
 *
 *   asker                                              owner
 *   socket of a fresh abstract name
 *   SIGBUS, KR_ASK_CODE, value = a tag of the question  -->  interrupted wherever it is (below)
 *                                                      connects; reads who listens (SO_PEERCRED)
 *                                                      checks as ptrace(2) does, PTRACE_MODE_READ_FSCREDS
 *   accepts; is the peer the owner (SO_PEERCRED)? <--  sends one message with a descriptor
 *
 * A link is passed as an O_PATH descriptor, a text or a list as a sealed memfd. The asker reads the link, and
 * opens the file behind it, with its own rights. The asker never parses a text of another monitor.
 *
 * No thread, no memory and no work at fork or open exists for this while nobody asks. The price: the question
 * interrupts the owner, and the owner must continue as if nothing had interrupted it:
 *   - A call of the payload that has not begun, or that the kernel restarts, ends with -KR_ERESTART and is
 *     executed again (lib/syscall.S).
 *   - A call that ends with EINTR because of the question is executed again as well. kr_ask_adjust puts the
 *     remaining time in place of the call's timeout. If a signal for the payload arrives before the call
 *     waits again, the call ends with EINTR then (kr_ask_signal): no wake-up is lost.
 *   - A write that the question has cut short continues (sys/table.c).
 * The signal is SIGBUS, because the host never blocks SIGBUS and the monitor always owns its disposition. The
 * payload's processes cannot make a tag, which is a keyed hash of the message (board.h): the listener at a stale name may be a
 * program of the payload, and hears the tag of one answer to itself. The asker signals only a process on the board (board.h),
 * and is itself one that may be on it: of the pid namespace of the monitors' procfs, so that both use the same numbers (ns.h).
 *
 * A process that is stopped, or that waits for a vfork child, does not answer: the asker gets EACCES.
 * PATIENCE and WAITS (ask.c) limit how long the asker waits.
 *
 * Locks: ask_lock during one request, serve_lock during one answer. Both are outermost, ask_lock first.
 */
#ifndef KR_ASK_H
#define KR_ASK_H

#include "procfs.h"
#include "../process/ns.h"
#include "../process/resume.h"

/* The object of a link of another process (w: exe, cwd, root, fd/N, ns/NAME), opened O_PATH, close-on-exec.
 * *mode: how a descriptor is open (F_GETFL). -EACCES: not allowed, or no answer; -ENOENT; -ESRCH: not a
 * monitor of this container; -KR_ERESTART. */
long kr_ask_link(struct kr_task *t, const struct kr_proc_name *w, u32 *mode);
/* The text of an entry (maps, smaps, environ, ...) of another process: a descriptor for reading,
 * close-on-exec. Errors as above. */
long kr_ask_text(struct kr_task *t, const struct kr_proc_name *w);
/* The open descriptors of process pid: *n numbers, ascending, in a buffer of *size bytes that the caller
 * frees (kr_free). of: KR_PE_FD or KR_PE_FDINFO, the directory that the payload opens; the kernel has other rules for the
 * second. KR_PE_FD where it is open already. 0 or errors as above. */
long kr_ask_fds(struct kr_task *t, u32 pid, enum kr_proc_entry of, u32 **fds, u32 *n, size_t *size);
/* The board's entry of process pid in *out. 0 or -ESRCH. */
struct kr_board_entry;
long kr_ask_board(struct kr_task *t, u32 pid, struct kr_board_entry *out);
/* The same, and waits a moment for the child of a fork, which is about to enter itself. */
long kr_ask_known(struct kr_task *t, u32 pid, struct kr_board_entry *out);

/* ---- the owner's side ---- */

/* Answers the question that the signal handler has noted (t->asked). On the task's own thread; no lock
 * held. */
void kr_ask_serve(struct kr_task *t);
/* For a call that a question or a stop (process/quiesce.h) has cut short, and whose parts the payload expects to come together: done, what
 * the last part gave. Answers the question, stands. Whether the next part is to be made; not if there was neither, nor before a signal of the
 * payload's. */
int kr_ask_goes_on(struct kr_task *t, long done);
/* In the child of a fork. */
void kr_ask_after_fork(void);
/* Called by the heir of a lock (lib/kr_lock.h): forgets the sockets of a dead holder. */
void kr_ask_heir(const struct kr_lock *l);

#endif
