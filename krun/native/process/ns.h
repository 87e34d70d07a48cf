/* SPDX-License-Identifier: Apache-2.0
 * Which pid and user namespace a process is in (ns.c). */
#ifndef KR_NS_H
#define KR_NS_H

#include "../machine/vmm.h"

/* Bits of proc->flags; an execve hands them on, and they are never cleared, because no process returns to a namespace above its
 * own. The process is in another user namespace than the container gave it. */
#define KR_PROCF_USERNS 0x20000000u
/* The process is in another pid namespace than the monitor's procfs: below it. Its own numbers (getpid(2)) and those that
 * kill(2) takes are other processes in that procfs and on the board, even where two of them are equal. */
#define KR_PROCF_NESTED 0x08000000u

/* Notes the namespaces of a process at the start of a program. home: the number of the container's user namespace; 0: not known,
 * or the process has inherited its flags from the program before. */
void kr_ns_start(struct kr_proc *p, u32 home);
/* Whether a child that `maker` makes with clone flags `flags` is certainly in its maker's pid and user namespace. Called on the
 * maker's thread. Only a call of the thread itself changes the namespaces that its children get (unshare(2), setns(2)), and
 * sys/misc.c notes it. */
int kr_ns_kept(const struct kr_task *maker, u64 flags);
/* Notes those of a new process, in it, as a copy of its maker's kr_proc. Called before kr_board_enter, if the maker's are not
 * kept. */
void kr_ns_born(struct kr_proc *p);
/* Notes the user namespace after a call that may have left it. Whether it has. */
int kr_ns_left(struct kr_proc *p);
/* The number of the calling thread's user namespace (namespaces(7)), or 0. */
u32 kr_ns_user(void);

/* Whether the calling process has the same numbers in the monitor's procfs, on the board and in its own calls. */
static inline int kr_same_numbers(const struct kr_proc *p) {
    return kr_boot.fd_proc >= 0 && !(__atomic_load_n(&p->flags, __ATOMIC_RELAXED) & KR_PROCF_NESTED);
}

#endif
