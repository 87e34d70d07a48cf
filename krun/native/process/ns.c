/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pid and user namespace a process is in: see ns.h.
 *
 * A number of a process says nothing of its pid namespace: with clone3(2) and set_tid the payload gives a process the same number
 * in two of them. The result of a call does not say which namespaces it has left: of unshare(CLONE_NEWUSER | CLONE_NEWPID) the
 * second part can fail alone. So the identity of a namespace is compared, the number that the links below /proc/PID/ns show. Two
 * namespaces that exist at the same time have two numbers.
 *
 * krun starts the first program of a container or exec with a procfs of its own pid namespace. From there on a process compares
 * its namespace with its maker's, which exists as long as its maker is being copied. The look at the two links is 2 % of a fork,
 * so a process whose maker's children cannot be elsewhere does without it (kr_ns_kept).
 *
 * State: proc->pidns, proc->userns, written by the process itself. No locks.
 */
#include "ns.h"
#include "process.h"
#include <linux/sched.h>

/* The number in thread-self/ns/NAME, "NAME:[4026531836]"; 0: none. */
static u32 number_of(const char *path) {
    char text[48];
    long n = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, path, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    const char *p = strchr(text, '[');
    return p ? (u32)kr_strtou(p + 1, NULL) : 0;
}

u32 kr_ns_user(void) { return number_of("thread-self/ns/user"); }

static void note(struct kr_proc *p, u32 flag) { __atomic_or_fetch(&p->flags, flag, __ATOMIC_RELAXED); }

void kr_ns_start(struct kr_proc *p, u32 home) {
    p->pidns = number_of("thread-self/ns/pid");
    p->userns = kr_ns_user();
    if (home && home != p->userns)
        note(p, KR_PROCF_USERNS);
}

int kr_ns_kept(const struct kr_task *maker, u64 flags) {
    return !(flags & (CLONE_NEWPID | CLONE_NEWUSER)) && !maker->newpid && maker->proc->pidns &&
           maker->proc->userns;
}

void kr_ns_born(struct kr_proc *p) {
    u32 now = number_of("thread-self/ns/pid");
    if (!now || now != p->pidns) {
        note(p, KR_PROCF_NESTED);
        p->procfs = 0; /* the mount that was found to have the maker's numbers */
    }
    p->pidns = now;
    kr_ns_left(p);
}

int kr_ns_left(struct kr_proc *p) {
    u32 now = kr_ns_user();
    int left = !now || now != p->userns;
    if (left)
        note(p, KR_PROCF_USERNS);
    p->userns = now;
    return left;
}
