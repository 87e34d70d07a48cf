/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding and loading programs, and execve(2): the monitor executes itself anew with the payload's argv and
 * envp, so that close-on-exec, the end of other threads, signal resets and the kernel's limits on arguments
 * are the kernel's own. What the new monitor must know travels in a boot block (abi/boot.h).
 */
#include "exec.h"
#include "args.h"
#include "resume.h"
#include "elf.h"
#include "../machine/fdtab.h"
#include "../machine/hostmem.h"
#include "main.h"
#include "process.h"
#include "above.h"
#include "../machine/usercopy.h"
#include "../machine/vdso.h"
#include "../machine/warm.h"
#include "../abi/boot.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/memfd.h>
#include <linux/resource.h>
#include <linux/stat.h>

#define O_NOFOLLOW_ 0400000
#define O_NONBLOCK_ 04000
#define PATH_MAX_ 4096

static char *word(const char *s, size_t n) {
    char *w = kr_alloc(PATH_MAX_);
    if (w) {
        n = KR_MIN(n, (size_t)PATH_MAX_ - 1);
        memcpy(w, s, n);
        w[n] = 0;
    }
    return w;
}

void kr_program_free(struct kr_program *p) {
    kr_slot_free(p->fd);
    kr_slot_free(p->interp);
    p->fd = p->interp = -1;
    kr_free(p->path, PATH_MAX_);
    for (u32 i = 0; i < KR_COUNT(p->words); i++)
        kr_free(p->words[i], PATH_MAX_);
    memset(p->words, 0, sizeof p->words);
    p->path = NULL;
}

#define AT_EXECVE_CHECK_ 0x10000

/* execve(2) of fd as far as its permission, and no further. 0 or -errno; -EINVAL from a kernel without it. */
static long execve_check(int fd) {
    static const char empty[1] = "";
    const char *argv[] = {"-", NULL}, *envp[] = {NULL};
    return kr_sys5(__NR_execveat, fd, empty, argv, envp, AT_EMPTY_PATH | AT_EXECVE_CHECK_);
}

int kr_execve_checks(void) {
    static u32 known; /* 1 yes, 2 no; the same whoever finds it */
    u32 k = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!k) {
        k = execve_check(kr_boot.fd_exe) == -EINVAL ? 2 : 1;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k == 1;
}

static int may_execute(int fd, const char **why) {
    struct statx st;
    static const char empty[1] = "";
    long r = kr_sys5(__NR_statx, fd, empty, AT_EMPTY_PATH, STATX_TYPE | STATX_MODE, &st);
    if (r < 0)
        return (int)r;
    if ((st.stx_mode & 0170000) != 0100000) {
        *why = (st.stx_mode & 0170000) == 0040000 ? "is a directory" : "not a regular file";
        return -EACCES;
    }
    struct {
        s64 type, bsize, blocks, bfree, bavail, files, ffree;
        s32 fsid[2];
        s64 namelen, frsize, flags, spare[4];
    } fs;
    r = kr_sys2(__NR_fstatfs, fd, &fs);
    if (r == 0 && (fs.flags & 8 /* ST_NOEXEC */)) {
        *why = "on a file system mounted noexec";
        return -EACCES;
    }
    r = kr_execve_checks()
            ? execve_check(fd)
            : kr_sys4(439 /* faccessat2 */, fd, empty, 1 /* X_OK */, AT_EMPTY_PATH | AT_EACCESS);
    if (r < 0) {
        *why = "not executable";
        return (int)r;
    }
    return 0;
}

/* Opens the interpreter of the ELF file p->fd, if it names one, and judges it while the caller can still be told. What is loaded later
 * is this very file, whatever its path leads to then. */
static long open_interp(struct kr_task *t, struct kr_program *p, const char **why) {
    struct kr_elf e;
    long r = kr_elf_read(p->fd, &e, why);
    if (r < 0 || !e.interp_len)
        return r;
    char *path = kr_alloc(PATH_MAX_);
    if (!path)
        return -ENOMEM;
    r = kr_sys4(__NR_pread64, p->fd, path, e.interp_len, e.interp_off);
    if (r != (long)e.interp_len || path[r - 1]) {
        *why = "an ELF file with an unusable interpreter path";
        r = -ENOEXEC;
    } else {
        struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK_};
        p->interp = kr_slot_put(t, (int)kr_open(t, AT_FDCWD, path, &how));
        r = p->interp;
        if (r < 0) {
            *why = "opening the program's ELF interpreter";
        } else {
            r = may_execute(p->interp, why);
            if (r == 0 && kr_elf_read(p->interp, &e, why) < 0) {
                *why = "the program's ELF interpreter is not usable";
                r = -ELIBBAD;
            }
        }
    }
    kr_free(path, PATH_MAX_);
    return r < 0 ? r : 0;
}

/* "#! interpreter [one argument]" in line[n]. Cuts the words out in place; 0 or -ENOEXEC (binfmt_script.c).
 */
static int parse_script(char *line, size_t n, char **interp, char **arg) {
    line[KR_MIN(n, (size_t)KR_SCRIPT_LINE - 1)] = 0;
    char *end = strchr(line, '\n');
    if (!end) {
        end = line + strlen(line);
        if (n >= KR_SCRIPT_LINE) { /* cut off: fine only if the interpreter's own name is whole */
            char *p = line + 2;
            while (*p == ' ' || *p == '\t')
                p++;
            while (*p && *p != ' ' && *p != '\t')
                p++;
            if (!*p)
                return -ENOEXEC;
        }
    }
    *end = 0;
    while (end > line + 2 && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    char *p = line + 2;
    while (*p == ' ' || *p == '\t')
        p++;
    if (!*p)
        return -ENOEXEC;
    *interp = p;
    while (*p && *p != ' ' && *p != '\t')
        p++;
    *arg = NULL;
    if (*p) {
        *p++ = 0;
        while (*p == ' ' || *p == '\t')
            p++;
        if (*p)
            *arg = p;
    }
    return 0;
}

/* A readable descriptor of the file that the payload's descriptor fd is about, in a slot. It is judged before it is opened: an O_PATH
 * one may be of anything, and the opening of a device or FIFO has effects. */
static long reopen(struct kr_task *t, int fd, const char **why) {
    char name[32];
    int slot = kr_slot_dup(t, (u32)fd);
    if (slot < 0)
        return slot;
    long r = may_execute(slot, why);
    if (r == 0) {
        kr_snprintf(name, sizeof name, "thread-self/fd/%d", slot); /* "self" ends with the first thread */
        r = kr_slot_put(t, (int)kr_sys4(__NR_openat, kr_boot.fd_proc, name, O_RDONLY | O_CLOEXEC, 0));
    }
    kr_slot_free(slot);
    return r;
}

/* The file at p->path of depth 0, or the interpreter of the script before it, in a slot. */
static long open_program(struct kr_task *t, int dirfd, const char *path, int flags, const char **why) {
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK_}; /* a FIFO must not hold us */
    if (!*path)
        return flags & AT_EMPTY_PATH ? reopen(t, dirfd, why) : -ENOENT;
    if (flags & AT_SYMLINK_NOFOLLOW)
        how.flags |= O_NOFOLLOW_;
    long fd = kr_open(t, dirfd, path, &how);
    if (fd == -ENXIO) /* a socket or such */
        return -EACCES;
    return kr_slot_put(t, (int)fd);
}

long kr_program_find(struct kr_task *t, int dirfd, const char *path, int flags, struct kr_program *p,
                     const char **why) {
    memset(p, 0, sizeof *p);
    p->fd = p->interp = -1;
    *why = "opening the program";
    char *line = kr_alloc(KR_SCRIPT_LINE + 1);
    p->path = word(path, strlen(path));
    long r = line && p->path ? 0 : -ENOMEM;
    for (u32 depth = 0; !r; depth++) {
        long fd = open_program(t, depth ? AT_FDCWD : dirfd, p->path, flags, why);
        if (!p->path[0])
            kr_snprintf(p->path, PATH_MAX_, "/dev/fd/%d", dirfd);
        if (fd < 0) {
            r = fd;
            break;
        }
        kr_slot_free(p->fd);
        p->fd = (int)fd;
        r = may_execute(p->fd, why);
        if (r < 0)
            break;
        long n = kr_sys4(__NR_pread64, p->fd, line, KR_SCRIPT_LINE, 0);
        if (n < 2 || line[0] != '#' || line[1] != '!') {
            r = n < 0 ? n : open_interp(t, p, why);
            break;
        }
        *why = "a script with too many levels of interpreters";
        if (depth == KR_SCRIPT_DEPTH) {
            r = -ELOOP;
            break;
        }
        *why = "a script without an interpreter in its first line";
        char *interp, *arg;
        r = parse_script(line, (size_t)n, &interp, &arg);
        if (r < 0)
            break;
        /* words = interp [arg] script, in front of what earlier levels made: [interp2 [arg2]] interp... */
        if (depth == 0) {
            /* The interpreter could not open it any more (BINPRM_FLAGS_PATH_INACCESSIBLE). */
            if ((!path[0] || (path[0] != '/' && dirfd != AT_FDCWD)) &&
                (kr_sys2(__NR_fcntl, dirfd, F_GETFD) & FD_CLOEXEC)) {
                r = -ENOENT;
                break;
            }
            p->words[0] = word(path[0] ? path : p->path, path[0] ? strlen(path) : strlen(p->path));
            if (path[0] && path[0] != '/' && dirfd != AT_FDCWD && p->words[0])
                kr_snprintf(p->words[0], PATH_MAX_, "/dev/fd/%d/%s", dirfd, path);
            p->nwords = 1;
        }
        u32 more = arg ? 2 : 1;
        memmove(&p->words[more], &p->words[0], p->nwords * sizeof(char *));
        p->words[0] = word(interp, strlen(interp));
        if (arg)
            p->words[1] = word(arg, strlen(arg));
        p->nwords += more;
        kr_free(p->path, PATH_MAX_);
        p->path = word(interp, strlen(interp));
        *why = "opening a script's interpreter";
        for (u32 i = 0; i < p->nwords; i++)
            if (!p->words[i])
                r = -ENOMEM;
        if (!p->path)
            r = -ENOMEM;
    }
    kr_free(line, KR_SCRIPT_LINE + 1);
    if (r < 0)
        kr_program_free(p);
    return r;
}

/* execveat(2) with AT_EXECVE_CHECK: whether this very file may be executed; nothing is said of its format. */
static long only_check(struct kr_task *t, int dirfd, const char *path, int flags) {
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_EXECVE_CHECK_))
        return -EINVAL;
    if (!*path) /* a descriptor of the payload's: dispatch has looked */
        return flags & AT_EMPTY_PATH ? execve_check(dirfd) : -ENOENT;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW_ : 0)};
    long fd = kr_open(t, dirfd, path, &how);
    if (fd < 0)
        return fd;
    struct statx st;
    long r = kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
    if (r == 0) /* a link that was not to be followed */
        r = (st.stx_mode & 0170000) == 0120000 ? -ELOOP : execve_check((int)fd);
    kr_sys1(__NR_close, fd);
    return r;
}

static void add_name(u64 *value, u64 v, int is_min) {
    if (!*value || (is_min ? v < *value : v > *value))
        *value = v;
}

long kr_load(struct kr_mm *mm, const struct kr_program *p, char **argv, char **envp, const u64 *auxv,
             struct kr_start *start, const char **why) {
    struct kr_elf *e = kr_alloc(sizeof *e);
    if (!e)
        return -ENOMEM;
    long r = kr_elf_read(p->fd, e, why);
    if (r < 0)
        goto out;
    *why = "mapping the program";
    /* As in fs/binfmt_elf.c: the program low, what it maps high; a random start that keeps p_align. */
    u64 bias = kr_elf_bias(e, 0x2aaa00000000ULL + KR_PAGE * kr_mm_random(1ULL << 28));
    r = kr_elf_map(mm, p->fd, e, bias);
    if (r < 0)
        goto out;
    for (u32 i = 0; i < e->nload; i++) {
        const struct elf64_phdr *ph = &e->load[i];
        u64 s = ph->p_vaddr + bias, end = s + ph->p_filesz;
        if (ph->p_flags & PF_X) {
            add_name(&mm->code_start, s, 1);
            add_name(&mm->code_end, end, 0);
        } else if (ph->p_flags & PF_W) {
            add_name(&mm->data_start, s, 1);
            add_name(&mm->data_end, end, 0);
        }
    }
    mm->brk_start = mm->brk_end = KR_PAGE_UP(e->max + bias) + KR_PAGE * kr_mm_random(2048);
    struct kr_stack_args sa = {.argv = argv,
                               .envp = envp,
                               .execfn = p->path,
                               .host_auxv = auxv,
                               .phdr = e->phdr_vaddr ? e->phdr_vaddr + bias : 0,
                               .phnum = e->phnum,
                               .entry = e->entry + bias,
                               .exec = e->stack_exec};
    if (p->nwords)
        sa.execfn = p->words[p->nwords - 1];
    start->entry = sa.entry;
    if (e->interp_len) {
        *why = "opening the program's ELF interpreter";
        /* One that was not there when the program was judged: the file was changed. */
        r = p->interp < 0 ? -ELIBBAD : kr_elf_read(p->interp, e, why);
        if (r >= 0) {
            *why = "mapping the program's ELF interpreter";
            kr_lock(&mm->lock);
            u64 at = kr_mm_find_free(mm, e->max - e->min, e->align);
            kr_unlock(&mm->lock);
            u64 ibias = e->type == ET_DYN ? at - e->min : 0;
            r = at ? kr_elf_map(mm, p->interp, e, ibias) : -ENOMEM;
            sa.base = e->min + ibias;
            start->entry = e->entry + ibias;
        }
        if (r < 0)
            goto out;
    }
    mm->vdso = sa.vdso = kr_vdso_map(mm);
    *why = "building the program's stack";
    r = kr_stack_build(mm, &sa, &start->sp);
    if (!r) {
        kr_lock(&mm->lock);
        kr_warm_stack(mm, start->sp);
        kr_unlock(&mm->lock);
    }
out:
    kr_free(e, sizeof *e);
    return r;
}

/* ---- execve ---- */

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

static struct { u64 dev, ino; } exe; /* which file the monitor's is; constant after kr_exec_ready */

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

long kr_boot_block(struct kr_task *t, const char *path, const struct kr_program *p, u64 flags, char **out,
                   size_t *size) {
    struct block b = {0};
    struct kr_boot_header h = {.magic = KR_BOOT_MAGIC, .version = KR_BOOT_VERSION};
    b.buf = kr_alloc(1024);
    if (!b.buf)
        return -ENOMEM;
    b.room = 1024;
    b.size = sizeof h;
    emit(&b, KR_BOOT_EXE_PATH, path, (u32)strlen(path));
    const struct {
        u16 tag;
        s32 fd;
    } fds[] = {{KR_BOOT_FD_KVM, kr_boot.fd_kvm},       {KR_BOOT_FD_EXE, kr_boot.fd_exe},
               {KR_BOOT_FD_PROC, kr_boot.fd_proc},     {KR_BOOT_FD_LOG, kr_boot.fd_log},
               {KR_BOOT_FD_BOARD, kr_boot.fd_board},   {KR_BOOT_FD_TARGET, p ? p->fd : -1},
               {KR_BOOT_FD_INTERP, p ? p->interp : -1}};
    for (u32 i = 0; i < KR_COUNT(fds); i++)
        if (fds[i].fd >= 0)
            emit(&b, fds[i].tag, &fds[i].fd, 4);
    u64 lim[2], type = t->mm->vm.entry, place = kr_fd_place();
    flags &= ~(u64)(KR_BOOTF_NNP | KR_BOOTF_JAILED);
    flags |= (t->nnp ? KR_BOOTF_NNP : 0) | (kr_jailed() ? KR_BOOTF_JAILED : 0);
    emit(&b, KR_BOOT_FLAGS, &flags, 8);
    emit(&b, KR_BOOT_VM_TYPE, &type, 8);
    emit(&b, KR_BOOT_FD_PLACE, &place, 8);
    emit(&b, KR_BOOT_NOFILE_HARD, &t->proc->nofile_hard, 8);
    emit(&b, KR_BOOT_EXE_DEV, &exe.dev, 8);
    emit(&b, KR_BOOT_EXE_INO, &exe.ino, 8);
    kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, 0, lim);
    if (lim[0] > KR_EXEC_STACK || (p && p->full_args))
        emit(&b, KR_BOOT_RLIMIT_STACK, &lim[0], 8);
    u64 persona = t->persona;
    if (persona)
        emit(&b, KR_BOOT_PERSONALITY, &persona, 8);
    u32 cpuid_size;
    const void *cpuid = kr_vm_cpuid(&cpuid_size);
    if (cpuid)
        emit(&b, KR_BOOT_CPUID, cpuid, cpuid_size);
    kr_seccomp_save(t, emit, &b);
    h.size = (u32)b.size;
    memcpy(b.buf, &h, sizeof h);
    *size = kr_boot_text_size(b.size);
    *out = b.failed ? NULL : kr_alloc(*size);
    long n = *out ? kr_boot_encode(*out, b.buf, b.size) : -ENOMEM;
    kr_free(b.buf, b.room);
    return n;
}

long kr_exec_self(const struct kr_program *p, char **argv, char **envp) {
    u64 id[2];
    if (exe_identity(id) < 0 || id[0] != exe.dev || id[1] != exe.ino)
        kr_die("descriptor %d is not the monitor's file", kr_boot.fd_exe);
    u64 lim[2] = {0, 0};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, 0, lim);
    /* See KR_BOOT_RLIMIT_STACK. A quarter of the limit is what the kernel grants to arguments, the boot block included. */
    int other = lim[0] > KR_EXEC_STACK || (p && p->full_args);
    if (other) {
        u64 fit[2] = {KR_MIN(KR_EXEC_STACK, lim[1]), lim[1]};
        kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, fit, 0);
    }
    kr_ask_hold(1);
    long r = kr_call_intr(__NR_execveat, (u64)kr_boot.fd_exe, KR_EMPTY_PATH, (u64)argv, (u64)envp,
                          AT_EMPTY_PATH, 0);
    kr_ask_hold(0);
    if (other)
        kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, lim, 0);
    return r;
}

/* The point of no return. exec_lock is held from before the filters and no_new_privs are written down: what another thread's
 * SECCOMP_FILTER_FLAG_TSYNC adds is in the block, or comes after a failure (cred_guard_mutex in the kernel). */
static long exec_program(struct kr_task *t, const struct kr_program *p, struct kr_args *args) {
    char *text = NULL;
    size_t size = 0;
    kr_lock(&t->proc->exec_lock);
    kr_sys3(__NR_fcntl, p->fd, F_SETFD, 0); /* for the next monitor; nobody else has the number */
    if (p->interp >= 0)
        kr_sys3(__NR_fcntl, p->interp, F_SETFD, 0);
    long r = kr_boot_block(t, p->nwords ? p->words[p->nwords - 1] : p->path, p, t->proc->flags, &text, &size);
    if (r > KR_BOOT_STRINGS)
        r = -E2BIG;
    if (r > 0) {
        char *s = text;
        for (long i = 0; i < r; i++, s += strlen(s) + 1)
            args->envp[args->envc + i] = s;
        args->envp[args->envc + r] = NULL;
        r = kr_exec_self(p, args->argv, args->envp);
    }
    kr_unlock(&t->proc->exec_lock);
    kr_free(text, size);
    return r;
}

long kr_execve(struct kr_task *t, int dirfd, const char *path, u64 argv, u64 envp, int flags) {
    struct kr_program p;
    const char *why;
    if (flags & AT_EXECVE_CHECK_ && kr_execve_checks())
        return only_check(t, dirfd, path, flags);
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    long r = kr_program_find(t, dirfd, path, flags, &p, &why);
    if (r < 0)
        return r;
    if (t->newpid) { /* the new program's VM could not run (alone.c) */
        kr_log("execve: not served after unshare or setns of a pid namespace; fork first (unshare --fork)");
        kr_program_free(&p);
        return -EINVAL;
    }
    struct kr_args args;
    r = kr_args_in(&args, argv, envp, p.words, p.nwords, path, KR_BOOT_STRINGS);
    p.full_args = args.full;
    if (r == 0)
        r = exec_program(t, &p, &args);
    kr_args_free(&args);
    kr_program_free(&p);
    return r;
}
