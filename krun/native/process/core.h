/* SPDX-License-Identifier: Apache-2.0
 *
 * The ELF core file of the payload (core(5)) after a fatal signal. The rules are those of the kernel
 * (do_coredump() and coredump_file() in fs/coredump.c of Linux 6.18, elf_core_dump() in fs/binfmt_elf.c). The
 * kernel never dumps the monitor, because the monitor is not dumpable. Therefore the wait status lacks the
 * core flag (docs/limits.md).
 *
 *   core.c      whether there is a core
 *   corefile.c  the name of the file, and how it is made
 *   corenote.c  the notes: registers of every thread, auxv, mapped files
 *   coremem.c   the segments: which memory is dumped, and how it is written
 *
 * All other threads of the process are stopped (quiesce.h) while the core is written. The writing thread has
 * a descriptor table of its own, so that no other task reaches its descriptors, not even relatives made with
 * CLONE_FILES. Relatives on the same memory (CLONE_VM) run on and may change the memory, as on Linux since
 * 5.16.
 */
#ifndef KR_CORE_H
#define KR_CORE_H

#include "../machine/vmm.h"
#include <asm/signal.h>

/* Signals whose default action is a core (signal(7)). */
#define KR_CORE_SIGNALS                                                                                      \
    (KR_SIGBIT(SIGQUIT) | KR_SIGBIT(SIGILL) | KR_SIGBIT(SIGTRAP) | KR_SIGBIT(SIGABRT) | KR_SIGBIT(SIGBUS) |  \
     KR_SIGBIT(SIGFPE) | KR_SIGBIT(SIGSEGV) | KR_SIGBIT(SIGXCPU) | KR_SIGBIT(SIGXFSZ) | KR_SIGBIT(SIGSYS))

/* The smallest RLIMIT_CORE for which a core is written, bytes (min_coredump of the kernel's ELF format). */
#define KR_CORE_MIN KR_PAGE

/* Writes the core of a process that dies of signal sig. info may be NULL. Best effort: where no core is
 * written the reason is logged. Called at the run loop without a lock. The other threads stay stopped, so the
 * caller must end the process. */
void kr_core_dump(struct kr_task *t, int sig, const siginfo_t *info);

/* Writes the name of the core file, made from core_pattern, to out[size]. Pure. */
struct kr_core_name {
    u32 pid, uid, gid, sig, uses_pid, dumpable;
    u64 time, limit;
    const char *comm, *host, *exe;
};
void kr_core_format(char *out, size_t size, const char *pattern, const struct kr_core_name *n);

/* Removes what has the name, and makes a new file of mode 0600: no existing file, no link followed. The
 * directory is opened without magic links (proc(5)), because the kernel would walk them with the monitor's rights;
 * then only the last component is walked. path: written to and restored. Descriptor for writing, or -errno
 * (-ELOOP: a magic link). */
long kr_core_create(char *path);

/* ---- between the files ---- */

/* A buffer that grows. Where memory is short the added bytes are left out and `failed` is set. */
struct kr_core_bytes {
    u8 *p;
    size_t n, room;
    int failed;
};
void kr_core_add(struct kr_core_bytes *b, const void *data, size_t n);

/* A part of the payload's memory: one segment of the file. */
struct kr_core_segment {
    u64 start, end, size; /* size: number of dumped bytes */
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

/* The file while it is written. The limit is that of dump_emit(): a write beyond it ends the core, and holes
 * do not count. */
struct kr_core_out {
    int fd, mem; /* mem: /proc/self/mem, for pages that the host protects; -1: none */
    u64 limit, written, hole;
    int ended;
};
void kr_core_emit(struct kr_core_out *o, const void *data, u64 n);
void kr_core_hole(struct kr_core_out *o, u64 n);

/* What a core shows. Each row of monitor/state.def that a core shows has a function that adds its part; they are
 * called in the order of the rows, while the other threads of the process stand. */
struct kr_core {
    struct kr_task *t;
    int sig;
    const siginfo_t *info; /* may be NULL */
    struct kr_core_map map;
    struct kr_core_bytes notes;
    long error; /* 0 or -errno; later functions then do nothing */
};
/* coremem.c: the path in the first line of an entry of smaps; "": no file. A name that is no path may have a slash in it, because the
 * payload gives names to anonymous memory (prctl(2), PR_SET_VMA_ANON_NAME). Pure. */
const char *kr_core_path(const char *line);
/* coremem.c: the mappings, as coredump_filter selects them. */
void kr_core_save_mappings(struct kr_core *k);
/* corenote.c: the notes of process and threads; after the mappings, whose files are a note. */
void kr_core_save_tasks(struct kr_core *k);

/* coremem.c */
void kr_core_write_segment(struct kr_core_out *o, const struct kr_core_segment *s);

#endif
