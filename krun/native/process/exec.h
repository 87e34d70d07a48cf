/* SPDX-License-Identifier: Apache-2.0
 *
 * From a path to a running program: finding, loading, execve(2).
 */
#ifndef KR_EXEC_H
#define KR_EXEC_H

#include "../machine/mm.h"

#define KR_SCRIPT_DEPTH 5  /* BINPRM: interpreters of interpreters */
#define KR_SCRIPT_LINE 256 /* BINPRM_BUF_SIZE */

/* A program that was found: an open ELF file, its ELF interpreter, and for a script the words that go before
 * the caller's arguments. */
struct kr_program {
    int fd, interp; /* in slots, which no other thread reaches (kr_slot_put); interp -1: no interpreter */
    char *path;     /* of the ELF file, kr_alloc(4096) */
    char *words[2 * KR_SCRIPT_DEPTH +
                1]; /* replaces argv[0]; kr_alloc(4096) each; words[nwords-1] is the script */
    int full_args;  /* see kr_args; for kr_exec_self */
    u32 nwords;     /* 0: no script, argv stays */
    char which
        [256]; /* of a program that was not found fit: the interpreter's path that the reason is about, cut; else empty */
    const char *hint; /* the likely cause, or NULL */
};

/* ---- find.c ---- */

/* Opens path (relative to dirfd; empty with AT_EMPTY_PATH: dirfd itself), follows #! lines, checks execute
 * permission and the ELF header, and that its interpreter exists. 0 or -errno with the reason in *why, p->which and p->hint. */
long kr_program_find(struct kr_task *t, int dirfd, const char *path, int flags, struct kr_program *p,
                     const char **why);
void kr_program_free(struct kr_program *p);
/* Frees the memory of p, and leaves its descriptors to whoever has them. */
void kr_program_forget(struct kr_program *p);

/* Whether the kernel knows AT_EXECVE_CHECK (Linux 6.14). If so the kernel itself judges what may be executed,
 * its security modules included. */
int kr_execve_checks(void);

/* execveat(2) with AT_EXECVE_CHECK, on a kernel that has it: whether the file at path may be executed. The file's
 * format is not judged. 0 or -errno. */
long kr_program_check(struct kr_task *t, int dirfd, const char *path, int flags);

/* ---- unfit.c ---- */

/* Writes to the payload's stderr that its first program cannot be executed: one line, as runc's init writes it when execve(2) has
 * failed. path: as it was named; p: which and hint count; why, err (an errno): of kr_program_find or kr_load. */
void kr_unfit_say(const char *path, const struct kr_program *p, const char *why, long err);

/* ---- load.c ---- */

/* Loads p->fd into a fresh mm, builds the first stack, and sets start->entry and start->sp. argv, envp:
 * NULL-terminated arrays in monitor memory. auxv: the monitor's own. 0 or -errno with the reason in *why. */
struct kr_start {
    u64 entry, sp;
};
long kr_load(struct kr_mm *mm, const struct kr_program *p, char **argv, char **envp, const u64 *auxv,
             struct kr_start *start, const char **why);

/* Chooses random places for the stack and the mmap area. Called before anything is mapped. */
void kr_mm_layout(struct kr_mm *mm);

/* ---- exec.c ---- */

/* What an execve hands on, and where it is written: each row of monitor/state.def that the next monitor needs has a
 * function that emits its records (abi/boot.h). */
struct kr_exec_save {
    struct kr_task *t;
    const char *path;           /* of the program, or of the script */
    const struct kr_program *p; /* NULL: a hook, which the next monitor finds itself */
    u64 flags;                  /* KR_BOOTF_* */
    void (*emit)(void *ctx, u16 tag, const void *data, u32 len);
    void *ctx;
};
void kr_exec_save_boot(const struct kr_exec_save *x);
void kr_exec_save_found(const struct kr_exec_save *x);
void kr_exec_save_process(const struct kr_exec_save *x);
void kr_exec_save_signals(const struct kr_exec_save *x);
void kr_exec_save_vm(const struct kr_exec_save *x);
void kr_exec_save_task(const struct kr_exec_save *x);
void kr_exec_save_descriptors(const struct kr_exec_save *x);
void kr_exec_save_clock(const struct kr_exec_save *x);

/* ---- ids.c ---- */

struct kr_exec_ids {
    u32 euid, egid;
};
/* Emits the effective ids of the calling thread, if one of them is not the real id. */
void kr_exec_save_ids(const struct kr_exec_save *x);
/* Gives the process the effective ids that it had before the execve, if the kernel has taken them away because of
 * the monitor's no_new_privs. Best effort: without CAP_SETUID and CAP_SETGID among the permitted capabilities the
 * real ids stay. The process is undumpable afterwards. */
void kr_exec_load_ids(void);

/* ---- exec.c ---- */

/* Makes the boot block for the next monitor, as strings for the end of its environment (main.h). *out is
 * kr_alloc(*size) and has the strings one behind the other. Returns the number of strings or -errno. No
 * descriptor carries the block, because other threads of the payload share the descriptor table and could
 * change which file a number refers to. */
long kr_boot_block(struct kr_task *t, const char *path, const struct kr_program *p, u64 flags, char **out,
                   size_t *size);
#define KR_BOOT_STRINGS 40 /* the maximum of strings: room for seccomp filters of 2 MB */
/* Maps KR_EMPTY_PATH and records which file the monitor's own is. Called once at start, before any code of
 * the payload runs. 0 or -errno. */
int kr_exec_ready(void);
/* Executes the monitor anew. Returns -errno, and only on failure. Ends the process if the descriptor is not
 * of the monitor's own file. */
long kr_exec_self(const struct kr_program *p, char **argv, char **envp);

/* Frees what o, a task of this memory whose program has gone on elsewhere by execve(2), has left in the heap. Only for a task
 * that has ended; its stack is still mapped. */
void kr_exec_left(struct kr_task *o);

/* ---- stack.c ---- */

struct kr_stack_args {
    char **argv, **envp;
    const char *execfn;
    u64 phdr, phnum, base, entry, vdso;
    const u64 *host_auxv; /* the monitor's own vector, for HWCAP, ids, clock ticks */
    int exec;             /* executable stack */
};
long kr_stack_build(struct kr_mm *mm, const struct kr_stack_args *a, u64 *sp);

#endif
