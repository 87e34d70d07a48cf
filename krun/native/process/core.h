/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF core of the payload (core(5)) when a fatal signal asks for one. The rules are the kernel's
 * (do_coredump() and coredump_file() in fs/coredump.c of Linux 6.18, elf_core_dump() in fs/binfmt_elf.c). The
 * monitor itself is never dumped (it is not dumpable): the kernel makes no core, so the wait status lacks the
 * core flag (docs/limits.md).
 *
 *   core.c      whether there is a core, and in which file
 *   corenote.c  the notes: registers of every thread, auxv, mapped files
 *   coremem.c   the segments: which memory is dumped, and writing it
 *
 * All other threads of the process stand (quiesce.h) while it is written, and the writing thread has a
 * descriptor table of its own: what it opens is in no other task's reach, relatives made with CLONE_FILES
 * included. Relatives on the same memory (CLONE_VM) go on and may change it, as on Linux since 5.16.
 */
#ifndef KR_CORE_H
#define KR_CORE_H

#include "../machine/vmm.h"
#include <asm/signal.h>

/* Signals whose default action is a core (signal(7)). */
#define KR_CORE_SIGNALS                                                                                      \
    (KR_SIGBIT(SIGQUIT) | KR_SIGBIT(SIGILL) | KR_SIGBIT(SIGTRAP) | KR_SIGBIT(SIGABRT) | KR_SIGBIT(SIGBUS) |  \
     KR_SIGBIT(SIGFPE) | KR_SIGBIT(SIGSEGV) | KR_SIGBIT(SIGXCPU) | KR_SIGBIT(SIGXFSZ) | KR_SIGBIT(SIGSYS))

/* The least RLIMIT_CORE that asks for a core, bytes (min_coredump of the kernel's ELF format). */
#define KR_CORE_MIN KR_PAGE

/* Writes the core for a process that is about to die of sig; info may be NULL. Best effort: without a core
 * the reason is logged. At the run loop, no lock held. The other threads stand from then on, so the caller
 * ends the process. */
void kr_core_dump(struct kr_task *t, int sig, const siginfo_t *info);

/* Name of the core file from core_pattern (pure): out[size]. */
struct kr_core_name {
    u32 pid, uid, gid, sig, uses_pid, dumpable;
    u64 time, limit;
    const char *comm, *host, *exe;
};
void kr_core_format(char *out, size_t size, const char *pattern, const struct kr_core_name *n);

/* ---- between the three files ---- */

/* Bytes that grow; on lack of memory what does not fit is left out and `failed` is set. */
struct kr_core_bytes {
    u8 *p;
    size_t n, room;
    int failed;
};
void kr_core_add(struct kr_core_bytes *b, const void *data, size_t n);

/* A part of the payload's memory: one segment of the file. */
struct kr_core_segment {
    u64 start, end, size; /* size: bytes of it that are dumped */
    u64 offset;           /* in the mapped file, bytes */
    u32 prot;             /* PROT_* as the payload sees it */
    u32 name;             /* 1 + where the file's path begins in kr_core_map.names; 0: no file */
};

struct kr_core_map {
    struct kr_core_bytes segments; /* of struct kr_core_segment */
    struct kr_core_bytes names;    /* paths with NUL */
};
static inline const struct kr_core_segment *kr_core_segments(const struct kr_core_map *m, u32 *n) {
    *n = (u32)(m->segments.n / sizeof(struct kr_core_segment));
    return (const struct kr_core_segment *)m->segments.p;
}

/* The file as it is written, with the limit as dump_emit() keeps it: what would go beyond ends the core;
 * holes do not count. */
struct kr_core_out {
    int fd, mem; /* mem: /proc/self/mem, for what the host protects; -1: none */
    u64 limit, written, hole;
    int ended;
};
void kr_core_emit(struct kr_core_out *o, const void *data, u64 n);
void kr_core_hole(struct kr_core_out *o, u64 n);

/* coremem.c: what is mapped, by coredump_filter. 0 or -errno. */
long kr_core_map(struct kr_task *t, struct kr_core_map *m);
void kr_core_write_segment(struct kr_core_out *o, const struct kr_core_segment *s);
/* corenote.c */
void kr_core_notes(struct kr_core_bytes *b, struct kr_task *t, int sig, const siginfo_t *info,
                   const struct kr_core_map *m);

#endif
