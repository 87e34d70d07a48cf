/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF core of the payload (core(5)) when a fatal signal asks for one and RLIMIT_CORE allows it. The
 * monitor itself is never dumped (it is not dumpable): the kernel makes no core, so the wait status lacks the
 * core flag (docs/limits.md).
 */
#ifndef KR_CORE_H
#define KR_CORE_H

#include "vmm.h"
#include <asm/signal.h>

/* Signals whose default action is a core (signal(7)). */
#define KR_CORE_SIGNALS                                                                                      \
    (KR_SIGBIT(SIGQUIT) | KR_SIGBIT(SIGILL) | KR_SIGBIT(SIGTRAP) | KR_SIGBIT(SIGABRT) | KR_SIGBIT(SIGBUS) |  \
     KR_SIGBIT(SIGFPE) | KR_SIGBIT(SIGSEGV) | KR_SIGBIT(SIGXCPU) | KR_SIGBIT(SIGXFSZ) | KR_SIGBIT(SIGSYS))

/* Writes the core for a process that is about to die of sig; info may be NULL. Best effort. Stops all other
 * threads for good. */
void kr_core_dump(struct kr_task *t, int sig, const siginfo_t *info);

/* Called by the host handler on every other thread of a dying process: does not return while a core is being
 * written. */
void kr_core_park(struct kr_task *t);

/* Name of the core file from core_pattern (pure): out[size]. */
struct kr_core_name {
    u32 pid, uid, gid, sig, uses_pid;
    u64 time;
    const char *comm, *host, *exe;
};
void kr_core_format(char *out, size_t size, const char *pattern, const struct kr_core_name *n);

#endif
