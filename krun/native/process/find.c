/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the program that an execve(2) names: the walk over #! lines (fs/binfmt_script.c), the permission to execute
 * (do_open_execat() in fs/exec.c), the ELF interpreter. Every file is judged through the descriptor from which it is
 * loaded later, because another thread of the payload can rename files and reuse descriptor numbers meanwhile.
 *
 * State: known, whether the kernel knows AT_EXECVE_CHECK (the same for every finder). No locks.
 */
#include "exec.h"
#include "above.h"
#include "elf.h"
#include "process.h"
#include "../lib/kr_linux.h"
#include "../machine/fdtab.h"
#include <linux/openat2.h>

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
    kr_program_forget(p);
}

void kr_program_forget(struct kr_program *p) {
    kr_free(p->path, PATH_MAX_);
    for (u32 i = 0; i < KR_COUNT(p->words); i++)
        kr_free(p->words[i], PATH_MAX_);
    memset(p->words, 0, sizeof p->words);
    p->path = NULL;
}

/* Asks the kernel whether the file of fd may be executed, without executing it. 0 or -errno; -EINVAL from a
 * kernel without AT_EXECVE_CHECK. */
static long execve_check(int fd) {
    static const char empty[1] = "";
    const char *argv[] = {"-", NULL}, *envp[] = {NULL};
    return kr_sys5(__NR_execveat, fd, empty, argv, envp, AT_EMPTY_PATH | AT_EXECVE_CHECK);
}

static u32 known; /* 1 yes, 2 no; every thread finds the same answer */

int kr_execve_checks(void) {
    u32 k = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!k) {
        k = execve_check(kr_boot.fd_exe) == -EINVAL ? 2 : 1;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k == 1;
}

/* Whether the caller may execute the regular file of fd; 0 or -errno. The check of the file itself also says whether
 * the kernel knows the flag. Only -EINVAL is ambiguous, because the file system can refuse the open with it. Then
 * the monitor's own file decides. */
static long judge(int fd) {
    static const char empty[1] = "";
    long r = __atomic_load_n(&known, __ATOMIC_RELAXED) == 2 ? -EINVAL : execve_check(fd);
    if (r == 0)
        __atomic_store_n(&known, 1, __ATOMIC_RELAXED);
    if (r != -EINVAL || kr_execve_checks())
        return r;
    return kr_sys4(__NR_faccessat2, fd, empty, X_OK, AT_EMPTY_PATH | AT_EACCESS);
}

static int may_execute(int fd, const char **why) {
    struct statx st;
    static const char empty[1] = "";
    long r = kr_sys5(__NR_statx, fd, empty, AT_EMPTY_PATH, STATX_TYPE | STATX_MODE, &st);
    if (r < 0)
        return (int)r;
    if (!S_ISREG(st.stx_mode)) {
        *why = S_ISDIR(st.stx_mode) ? "is a directory" : "not a regular file";
        return -EACCES;
    }
    struct statfs fs;
    r = kr_sys2(__NR_fstatfs, fd, &fs);
    if (r == 0 && (fs.f_flags & ST_NOEXEC)) {
        *why = "on a file system mounted noexec";
        return -EACCES;
    }
    r = judge(fd);
    if (r < 0) {
        *why = "not executable";
        return (int)r;
    }
    return 0;
}

/* Opens the interpreter of the ELF file p->fd, if the file names one, and judges it while execve(2) can still
 * fail. The loader later uses this descriptor, whatever file the interpreter's path names by then. */
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
        struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK};
        p->interp = kr_slot_put(t, (int)kr_open(t, AT_FDCWD, path, &how));
        r = p->interp;
        if (r < 0) {
            *why = "opening the program's ELF interpreter";
            if (r == -ENOENT)
                p->hint = "is the program built for another C library (glibc, musl) than the image's?";
        } else {
            r = may_execute(p->interp, why);
            if (r == 0 && kr_elf_read(p->interp, &e, why) < 0) {
                *why = "an unusable ELF interpreter";
                r = -ELIBBAD;
            }
        }
        if (r < 0)
            kr_snprintf(p->which, sizeof p->which, "%s", path);
    }
    kr_free(path, PATH_MAX_);
    return r < 0 ? r : 0;
}

/* Parses "#! interpreter [one argument]" in line[n] in place (load_script() in fs/binfmt_script.c). 0 or
 * -ENOEXEC. */
static int parse_script(char *line, size_t n, char **interp, char **arg) {
    line[KR_MIN(n, (size_t)KR_SCRIPT_LINE - 1)] = 0;
    char *end = strchr(line, '\n');
    if (!end) {
        end = line + strlen(line);
        if (n >= KR_SCRIPT_LINE) { /* the line is cut off: the name of the interpreter must be whole */
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

/* Opens the file of the payload's descriptor fd for reading, in a slot. The file is judged before it is
 * opened, because an O_PATH descriptor may be of any file, and opening a device or a FIFO has effects. Slot
 * or -errno. */
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

/* Opens the program at path, or an interpreter of a script, in a slot. Slot or -errno. */
static long open_program(struct kr_task *t, int dirfd, const char *path, int flags, const char **why) {
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK}; /* opening a FIFO must not block */
    if (!*path)
        return flags & AT_EMPTY_PATH ? reopen(t, dirfd, why) : -ENOENT;
    if (flags & AT_SYMLINK_NOFOLLOW)
        how.flags |= O_NOFOLLOW;
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
        long fd = open_program(t, depth ? AT_FDCWD : dirfd, p->path, depth ? 0 : flags, why);
        if (!p->path[0])
            kr_snprintf(p->path, PATH_MAX_, "/dev/fd/%d", dirfd);
        if (fd < 0) {
            r = fd;
            if (depth && p->path[strlen(p->path) - 1] == '\r')
                p->hint = "the script's lines end with CR LF, not LF";
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
            /* The interpreter could not open the script through a close-on-exec descriptor
             * (BINPRM_FLAGS_PATH_INACCESSIBLE). */
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
    if (r < 0) {
        if (p->nwords && p->path && !p->which[0])
            kr_snprintf(p->which, sizeof p->which, "%s", p->path);
        kr_program_free(p);
    }
    return r;
}

long kr_program_check(struct kr_task *t, int dirfd, const char *path, int flags) {
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_EXECVE_CHECK))
        return -EINVAL;
    if (!*path) /* a descriptor of the payload: dispatch has checked it */
        return flags & AT_EMPTY_PATH ? execve_check(dirfd) : -ENOENT;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0)};
    long fd = kr_open(t, dirfd, path, &how);
    if (fd < 0)
        return fd;
    struct statx st;
    long r = kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
    if (r == 0) /* with AT_SYMLINK_NOFOLLOW the link itself is open */
        r = S_ISLNK(st.stx_mode) ? -ELOOP : execve_check((int)fd);
    kr_fd_shut(fd);
    return r;
}
