/* SPDX-License-Identifier: Apache-2.0
 *
 * The landlock(7) domains that the payload's threads have entered. The kernel has the domains and applies them to the host
 * calls of a thread. It cannot apply its rule for ptrace(2) to the answers of ask.h, because a monitor answers in place of
 * the kernel: a thread in a domain may look into a process of the same domain or of one below it only (hook_ptrace_access_check()
 * in security/landlock/task.c). So each task keeps a name for each domain that it has entered, and a question has the
 * name of the innermost domain of the thread that asks.
 *
 * A name is a random number, the same in all processes that inherit the domain, and never 0.
 */
#ifndef KR_DOMAIN_H
#define KR_DOMAIN_H

#include "../machine/vmm.h"

/* Called after the kernel has put the calling thread into one more domain. */
void kr_domain_enter(struct kr_task *t);
/* The innermost domain of t; 0: none. */
u64 kr_domain_of(const struct kr_task *t);
/* Whether a thread whose innermost domain is `asker` may look into the process of t. The kernel asks for the domain of the
 * process's first thread. Where that has ended, each thread must be in the domain. Takes mm->lock. */
int kr_domain_admits(struct kr_task *t, u64 asker);
/* Gives the first task of a program the domains that the boot block names. 0, or -EINVAL: a block that no monitor writes. */
int kr_domain_load(struct kr_task *t);

/* Whether t or one of its domains is named in d. Pure. */
int kr_domain_has(const struct kr_domains *d, u64 asker);

/* ---- Questions ---- */

/* Who asks, for the question: the pid, and the time in ticks of 10 ms in the lower 42 bits. Another process may get the pid and
 * the name of the socket after the asker has given up, but only later. */
u64 kr_domain_who(void);
/* Whether the process pid, on the board since `since` (ns), can be the one that `who` names. Pure. */
int kr_domain_is(u64 who, u32 pid, u64 since);
/* The tag of a question (board.h): request, and who asks from which domain. A signal handler may call it. */
u64 kr_domain_tag(u64 request, u64 domain, u64 who);

#endif
