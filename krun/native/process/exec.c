/* SPDX-License-Identifier: Apache-2.0
 *
 * execve(2). The monitor executes itself anew with the payload's argv and envp. Therefore the kernel itself closes the
 * close-on-exec descriptors, ends the other threads, resets the signal actions and limits the arguments. A boot block
 * (abi/boot.h) tells the new monitor what it must know.
 *
 * State: which file the monitor's own is (constant after kr_exec_ready). Lock: proc->exec_lock (exec_program below).
 */
#include "exec.h"
#include "above.h"
#include "args.h"
#include "board.h"
#include "bury.h"
#include "main.h"
#include "nnp.h"
#include "process.h"
#include "resume.h"
#include "signal.h"
#include "state.h"
#include "../abi/boot.h"
#include "../lib/kr_linux.h"
#include "../machine/fdtab.h"
#include "../machine/hostmem.h"
#include "../machine/vdso.h"
#include <linux/capability.h>
#include <linux/limits.h>
#include <linux/resource.h>

struct block {
    u8 *buf;
    size_t size, room;
    int failed;
};

static void emit(void *ctx, u16 tag, const void *data, u32 len) {
    struct block *b = ctx;
    size_t need = b->size + sizeof(struct kr_boot_record) + ((len + 7ULL) & ~7ULL);
    if (need > b->room) {
        size_t room = KR_MAX(need, b->room ? b->room * 2 : 1024);
        u8 *p = kr_realloc(b->buf, b->room, room);
        if (!p) {
            b->failed = 1;
            return;
        }
        b->buf = p;
        b->room = room;
    }
    struct kr_boot_record r = {.tag = tag, .len = len};
    memcpy(b->buf + b->size, &r, sizeof r);
    memset(b->buf + need - ((len + 7ULL) & ~7ULL), 0, (len + 7ULL) & ~7ULL);
    memcpy(b->buf + b->size + sizeof r, data, len);
    b->size = need;
}

static struct { u64 dev, ino; } exe; /* the monitor's own file; constant after kr_exec_ready */

static long exe_identity(u64 id[2]) {
    u64 st[18]; /* struct stat: st_dev, st_ino first */
    long r = kr_sys2(__NR_fstat, kr_boot.fd_exe, st);
    id[0] = st[0];
    id[1] = st[1];
    return r;
}

int kr_exec_ready(void) {
    u64 id[2];
    int e = kr_host_empty_path();
    if (e < 0)
        return e;
    long r = exe_identity(id);
    if (r < 0)
        return (int)r;
    if (kr_boot.exe_ino && (id[0] != kr_boot.exe_dev || id[1] != kr_boot.exe_ino))
        return -ESTALE;
    exe.dev = id[0];
    exe.ino = id[1];
    return 0;
}

/* ---- what the next monitor is told, by rows of monitor/state.def ---- */

void kr_exec_save_boot(const struct kr_exec_save *x) {
    const struct {
        u16 tag;
        s32 fd;
    } fds[] = {{KR_BOOT_FD_KVM, kr_boot.fd_kvm},
               {KR_BOOT_FD_EXE, kr_boot.fd_exe},
               {KR_BOOT_FD_PROC, kr_boot.fd_proc},
               {KR_BOOT_FD_LOG, kr_boot.fd_log},
               {KR_BOOT_FD_BOARD, kr_boot.fd_board},
               {KR_BOOT_FD_TARGET, x->p ? x->p->fd : -1},
               {KR_BOOT_FD_INTERP, x->p ? x->p->interp : -1}};
    x->emit(x->ctx, KR_BOOT_EXE_PATH, x->path, (u32)strlen(x->path));
    for (u32 i = 0; i < KR_COUNT(fds); i++)
        if (fds[i].fd >= 0)
            x->emit(x->ctx, fds[i].tag, &fds[i].fd, 4);
    u64 lim[2], flags = x->flags & ~(u64)(KR_BOOTF_NNP | KR_BOOTF_JAILED);
    flags |= (x->t->nnp ? KR_BOOTF_NNP : 0) | (kr_jailed() ? KR_BOOTF_JAILED : 0);
    x->emit(x->ctx, KR_BOOT_FLAGS, &flags, 8);
    x->emit(x->ctx, KR_BOOT_EXE_DEV, &exe.dev, 8);
    x->emit(x->ctx, KR_BOOT_EXE_INO, &exe.ino, 8);
    kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, 0, lim);
    if (lim[0] > KR_EXEC_STACK || (x->p && x->p->full_args))
        x->emit(x->ctx, KR_BOOT_RLIMIT_STACK, &lim[0], 8);
}

void kr_exec_save_found(const struct kr_exec_save *x) {
    u32 size;
    const void *cpuid = kr_vm_cpuid(&size);
    if (cpuid)
        x->emit(x->ctx, KR_BOOT_CPUID, cpuid, size);
}

void kr_exec_save_process(const struct kr_exec_save *x) {
    x->emit(x->ctx, KR_BOOT_NOFILE_HARD, &x->t->proc->nofile_hard, 8);
}

void kr_exec_save_signals(const struct kr_exec_save *x) {
    struct kr_fault_signals f;
    if (kr_signal_faults(x->t, &f))
        x->emit(x->ctx, KR_BOOT_FAULTS, &f, sizeof f);
}

void kr_exec_save_vm(const struct kr_exec_save *x) {
    u64 entry = kr_vm_entry(&x->t->mm->vm);
    x->emit(x->ctx, KR_BOOT_VM_TYPE, &entry, 8);
}

void kr_exec_save_task(const struct kr_exec_save *x) {
    u64 persona = x->t->persona;
    if (persona)
        x->emit(x->ctx, KR_BOOT_PERSONALITY, &persona, 8);
    if (x->t->domains.n)
        x->emit(x->ctx, KR_BOOT_DOMAINS, x->t->domains.id, x->t->domains.n * (u32)sizeof x->t->domains.id[0]);
    kr_exec_save_ids(x);
    kr_seccomp_save(x->t, x->emit, x->ctx);
}

void kr_exec_save_descriptors(const struct kr_exec_save *x) {
    u64 place = kr_fd_place();
    x->emit(x->ctx, KR_BOOT_FD_PLACE, &place, 8);
}

void kr_exec_save_clock(const struct kr_exec_save *x) {
    struct kr_vdso_rate rate;
    if (kr_vdso_rate(&rate))
        x->emit(x->ctx, KR_BOOT_CLOCK, &rate, sizeof rate);
}

long kr_boot_block(struct kr_task *t, const char *path, const struct kr_program *p, u64 flags, char **out,
                   size_t *size) {
    struct block b = {0};
    struct kr_boot_header h = {.magic = KR_BOOT_MAGIC, .version = KR_BOOT_VERSION};
    const struct kr_exec_save save = {t, path, p, flags, emit, &b};
    b.buf = kr_alloc(1024);
    if (!b.buf)
        return -ENOMEM;
    b.room = 1024;
    b.size = sizeof h;
    kr_state_exec(&save);
    h.size = (u32)b.size;
    memcpy(b.buf, &h, sizeof h);
    *size = kr_boot_text_size(b.size);
    *out = b.failed ? NULL : kr_alloc(*size);
    long n = *out ? kr_boot_encode(*out, b.buf, b.size) : -ENOMEM;
    kr_free(b.buf, b.room);
    return n;
}

/* CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: the two that read a file without permission (capabilities(7)). */
#define CAPS_TO_READ (1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH)

/* Takes the two out of the effective set of the calling thread, or gives them back (lower 0). Nobody may read
 * the monitor's file without them (its mode is 0111), and the kernel makes the image of an unreadable file
 * undumpable from its first instant (would_dump() in fs/exec.c). The effective set after an execve depends on the
 * permitted and the ambient set only (capabilities(7)), so the new image has what it would have had. Best effort:
 * the profile may refuse capset(2). Returns which were effective. */
static u32 caps_to_read(u32 which, int lower) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct cap[2];
    if (!which || kr_sys2(__NR_capget, &head, cap) < 0)
        return 0;
    u32 had = cap[0].effective & which;
    if (lower)
        cap[0].effective &= ~which;
    else
        cap[0].effective |= which;
    if (!lower || had)
        kr_sys2(__NR_capset, &head, cap);
    return had;
}

long kr_exec_self(const struct kr_program *p, char **argv, char **envp) {
    u64 id[2];
    if (exe_identity(id) < 0 || id[0] != exe.dev || id[1] != exe.ino)
        kr_die("descriptor %d is not the monitor's file", kr_boot.fd_exe);
    u64 lim[2] = {0, 0};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, 0, lim);
    /* See KR_BOOT_RLIMIT_STACK. The kernel grants a quarter of the stack limit to the arguments, the boot
     * block included. */
    int other = lim[0] > KR_EXEC_STACK || (p && p->full_args);
    if (other) {
        u64 fit[2] = {KR_MIN(KR_EXEC_STACK, lim[1]), lim[1]};
        kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, fit, 0);
    }
    kr_faults_hold(1);
    u32 had = caps_to_read(CAPS_TO_READ, 1);
    long r = kr_call_intr(__NR_execveat, (u64)kr_boot.fd_exe, KR_EMPTY_PATH, (u64)argv, (u64)envp,
                          AT_EMPTY_PATH, 0);
    caps_to_read(had, 0);
    kr_faults_hold(0);
    if (other)
        kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, lim, 0);
    return r;
}

/* What an execve has in the heap at the point of no return. Relatives (CLONE_VM) keep the heap, so whoever releases
 * the task frees it. It stands on the task's stack. */
struct kr_leaving {
    struct kr_args *args;
    struct kr_program *program;
    char *path, *text;
    size_t size;
};

void kr_exec_left(struct kr_task *o) {
    struct kr_leaving *l = o->exec;
    if (!l)
        return;
    o->exec = NULL; /* first: a process that is killed in between loses the rest, and nobody frees it twice */
    kr_free(l->text, l->size);
    kr_args_free(l->args);
    kr_program_forget(l->program);
    kr_free(l->path, PATH_MAX);
}

/* The point of no return. exec_lock is held from before the filters and no_new_privs are written into the
 * block. Therefore a filter that another thread adds with SECCOMP_FILTER_FLAG_TSYNC is in the block, or is
 * added after a failed execve (cred_guard_mutex in the kernel). */
static long exec_program(struct kr_task *t, struct kr_program *p, struct kr_args *args, char *path) {
    char *text = NULL;
    size_t size = 0;
    kr_lock(&t->proc->exec_lock);
    /* The next monitor needs the descriptors; no thread of the payload has their numbers. */
    kr_sys3(__NR_fcntl, p->fd, F_SETFD, 0);
    if (p->interp >= 0)
        kr_sys3(__NR_fcntl, p->interp, F_SETFD, 0);
    kr_faults_hold(1); /* from here on none is caught that the block does not have */
    u64 flags = t->proc->flags & ~(u64)KR_PROCF_IDS_CHANGED;
    if (kr_ids_differ())
        flags |= KR_PROCF_IDS_CHANGED;
    long r = kr_boot_block(t, p->nwords ? p->words[p->nwords - 1] : p->path, p, flags, &text, &size);
    if (r > KR_BOOT_STRINGS)
        r = -E2BIG;
    if (r > 0) {
        char *s = text;
        for (long i = 0; i < r; i++, s += strlen(s) + 1)
            args->envp[args->envc + i] = s;
        args->envp[args->envc + r] = NULL;
        struct kr_leaving left = {args, p, path, text, size};
        kr_life_leave(t, 1);
        __atomic_store_n(&t->exec, &left, __ATOMIC_RELEASE);
        kr_board_count(t);
        r = kr_exec_self(p, args->argv, args->envp);
        __atomic_store_n(&t->exec, NULL, __ATOMIC_RELEASE);
        kr_life_leave(t, 0);
    }
    kr_faults_hold(0);
    kr_unlock(&t->proc->exec_lock);
    kr_free(text, size);
    return r;
}

long kr_execve(struct kr_task *t, int dirfd, char *path, u64 argv, u64 envp, int flags) {
    struct kr_program p;
    const char *why;
    if (flags & AT_EXECVE_CHECK && kr_execve_checks())
        return kr_program_check(t, dirfd, path, flags);
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    long r = kr_program_find(t, dirfd, path, flags, &p, &why);
    if (r < 0)
        return r;
    if (t->newpid) { /* the VM of the new program could not run (alone.c) */
        kr_log("execve: not served after unshare or setns of a pid namespace; fork first (unshare --fork)");
        kr_program_free(&p);
        return -EINVAL;
    }
    struct kr_args args;
    r = kr_args_in(&args, argv, envp, p.words, p.nwords, path, KR_BOOT_STRINGS);
    p.full_args = args.full;
    /* Nobody would take the names away from a process that leaves its relatives by the execve. */
    kr_fd_unname(t);
    if (r == 0)
        r = exec_program(t, &p, &args, path);
    kr_args_free(&args);
    kr_program_free(&p);
    return r;
}
