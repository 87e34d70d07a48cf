/* SPDX-License-Identifier: Apache-2.0
 * From a path to a running program. */
#ifndef KR_EXEC_H
#define KR_EXEC_H

#include "../machine/mm.h"

#define KR_SCRIPT_DEPTH 5  /* BINPRM: interpreters of interpreters */
#define KR_SCRIPT_LINE 256 /* BINPRM_BUF_SIZE */

/* A program found: an open ELF file, its ELF interpreter, and, for scripts, the words that go before the caller's arguments. */
struct kr_program {
    int fd, interp; /* where no other thread reaches them (kr_slot_put); interp -1: it has none */
    char *path;     /* of the ELF file, kr_alloc(4096) */
    char *words[2 * KR_SCRIPT_DEPTH +
                1]; /* replaces argv[0]; kr_alloc(4096) each; words[nwords-1] is the script */
    int full_args;  /* see kr_args; for kr_exec_self */
    u32 nwords;     /* 0: no script, argv stays */
};

/* ---- find.c ---- */

/* Opens path (relative to dirfd; empty with AT_EMPTY_PATH: dirfd itself), follows #! lines, checks execute
 * permission and the ELF header, and that its interpreter exists. 0 or -errno with the reason in *why. */
long kr_program_find(struct kr_task *t, int dirfd, const char *path, int flags, struct kr_program *p,
                     const char **why);
void kr_program_free(struct kr_program *p);

/* Whether the kernel answers AT_EXECVE_CHECK (Linux 6.14): then it is the kernel that says what may be
 * executed, its security modules included. */
int kr_execve_checks(void);

/* execveat(2) with AT_EXECVE_CHECK, on a kernel that has it: whether the file at path may be executed. The file's
 * format is not judged. 0 or -errno. */
long kr_program_check(struct kr_task *t, int dirfd, const char *path, int flags);

/* ---- load.c ---- */

/* Loads prog->fd into a fresh mm, builds the stack, and sets *entry and *sp. argv, envp: arrays in monitor
 * memory, NULL-terminated. */
struct kr_start {
    u64 entry, sp;
};
long kr_load(struct kr_mm *mm, const struct kr_program *p, char **argv, char **envp, const u64 *auxv,
             struct kr_start *start, const char **why);

/* Decides stack and mmap places (random); before anything is mapped. */
void kr_mm_layout(struct kr_mm *mm);

/* ---- exec.c ---- */

/* Makes the boot block for a successor of this monitor, as strings for the end of its environment (main.h):
 * *out is kr_alloc(*size), the strings one behind the other. Their number, or -errno. No descriptor is
 * involved: other threads of the payload share the table and could change what one refers to. */
long kr_boot_block(struct kr_task *t, const char *path, const struct kr_program *p, u64 flags, char **out,
                   size_t *size);
#define KR_BOOT_STRINGS 40 /* the most that a block may become: seccomp filters of 2 MB */
/* Once, at start, before anything of the payload's runs: maps KR_EMPTY_PATH and notes which file the monitor's is. 0 or -errno. */
int kr_exec_ready(void);
/* Executes the monitor anew; returns only on failure. A file that is not the monitor's ends the process. */
long kr_exec_self(const struct kr_program *p, char **argv, char **envp);

/* ---- stack.c ---- */

struct kr_stack_args {
    char **argv, **envp;
    const char *execfn;
    u64 phdr, phnum, base, entry, vdso;
    const u64 *host_auxv; /* the monitor's own: HWCAP, ids, clock tick... */
    int exec;             /* executable stack */
};
long kr_stack_build(struct kr_mm *mm, const struct kr_stack_args *a, u64 *sp);

#endif
