/* SPDX-License-Identifier: Apache-2.0
 * Small things that sys/ files tell others. */
#ifndef KR_SYS_MISC_H
#define KR_SYS_MISC_H

/* In proc->flags, besides KR_BOOTF_*: the payload said PR_SET_DUMPABLE 0. fork keeps it, an execve clears it.
 */
#define KR_PROCF_UNDUMPABLE 0x80000000u
/* Its maker, which waits for it, takes its task and its kr_proc back as soon as its first thread ends. A second
 * thread would go on using them: such a process makes none. */
#define KR_PROCF_LENT 0x10000000u
/* It is in another user namespace than the container gave it; for good. */
#define KR_PROCF_USERNS 0x20000000u

/* 0 when `pid` is a thread of the calling process, else -ESRCH or -EPERM (sys/self.c). */
long kr_own_thread(unsigned long pid);

/* The prctl(2) options for which the host's call is made for the payload (sys/prctl.c): writes at most max of
 * them, returns how many. */
#define KR_PRCTL_OPTIONS 64 /* room for all rows of the list */
unsigned kr_prctl_forwarded(unsigned *out, unsigned max);

#endif
