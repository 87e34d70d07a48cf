/* SPDX-License-Identifier: Apache-2.0
 *
 * fcntl by a table of commands; setxattrat and getxattrat, whose value is behind a nested pointer. No state,
 * no locks.
 */
#include "../process/above.h"
#include "path.h"
#include "table.h"
#include "../machine/fdtab.h"
#include "../process/nnp.h"
#include "../view/procfs.h"
#include <linux/fcntl.h>

/* The kind of the third argument of a command. A command that is not listed gets EINVAL. F_DUPFD and
 * F_DUPFD_CLOEXEC are served by kr_fd_dup. */
enum arg {
    VALUE = 1,
    FDNUM,
    POINTER,
    NUMBER /* a value; the command changes the number, not the file: kr_fd_call */
};

struct command {
    u16 cmd;
    u8 arg, size;
};

static const struct command commands[] = {
    {1, VALUE, 0},      /* F_GETFD */
    {2, NUMBER, 0},     /* F_SETFD */
    {3, VALUE, 0},      /* F_GETFL */
    {4, VALUE, 0},      /* F_SETFL */
    {5, POINTER, 32},   /* F_GETLK */
    {6, POINTER, 32},   /* F_SETLK */
    {7, POINTER, 32},   /* F_SETLKW */
    {8, VALUE, 0},      /* F_SETOWN */
    {9, VALUE, 0},      /* F_GETOWN */
    {10, VALUE, 0},     /* F_SETSIG */
    {11, VALUE, 0},     /* F_GETSIG */
    {15, POINTER, 8},   /* F_SETOWN_EX */
    {16, POINTER, 8},   /* F_GETOWN_EX */
    {17, POINTER, 8},   /* F_GETOWNER_UIDS */
    {36, POINTER, 32},  /* F_OFD_GETLK */
    {37, POINTER, 32},  /* F_OFD_SETLK */
    {38, POINTER, 32},  /* F_OFD_SETLKW */
    {1024, VALUE, 0},   /* F_SETLEASE */
    {1025, VALUE, 0},   /* F_GETLEASE */
    {1026, VALUE, 0},   /* F_NOTIFY */
    {1027, FDNUM, 0},   /* F_DUPFD_QUERY */
    {1028, VALUE, 0},   /* F_CREATED_QUERY */
    {1031, VALUE, 0},   /* F_SETPIPE_SZ */
    {1032, VALUE, 0},   /* F_GETPIPE_SZ */
    {1033, VALUE, 0},   /* F_ADD_SEALS */
    {1034, VALUE, 0},   /* F_GET_SEALS */
    {1035, POINTER, 8}, /* F_GET_RW_HINT */
    {1036, POINTER, 8}, /* F_SET_RW_HINT */
    {1037, POINTER, 8}, /* F_GET_FILE_RW_HINT */
    {1038, POINTER, 8}, /* F_SET_FILE_RW_HINT */
    {1039, POINTER, 8}, /* F_GETDELEG */
    {1040, POINTER, 8}, /* F_SETDELEG */
};

/* Before the lock is there. */
static void note_record_locks(struct kr_task *t) {
    if (!(__atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_RECORD_LOCKS))
        kr_common_change(t, 0, KR_PROCF_RECORD_LOCKS);
}

long sys_fcntl(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[1] == F_DUPFD || (u32)a[1] == F_DUPFD_CLOEXEC) {
        long n = kr_fd_dup(a[0], (int)a[1], (u64)(s64)(s32)a[2]);
        kr_sockets_copied(t, a[0]);
        return n;
    }
    for (size_t i = 0; i < KR_COUNT(commands); i++) {
        const struct command *c = &commands[i];
        if (c->cmd != (u32)a[1])
            continue;
        /* The kernel uses values as 32-bit numbers. Cut to 32 bits, no value of the payload can be an
         * address. */
        u64 arg = c->arg == POINTER ? kr_guest_ptr(a[2], c->size)
                  : c->arg == FDNUM ? (u32)kr_guest_fd(a[2])
                                    : (u64)(s64)(s32)a[2];
        if (c->cmd == F_SETLK || c->cmd == F_SETLKW)
            note_record_locks(t);
        if (c->arg == NUMBER)
            return kr_fd_call(a[0], __NR_fcntl, c->cmd, arg);
        long n = kr_call_intr(__NR_fcntl, a[0], a[1], arg, 0, 0, 0);
        u32 pid;
        if (c->cmd == F_GETFL && n >= 0 && n & O_PATH && kr_dir_kind(t, (int)a[0], &pid) == KR_DIR_FDS_OTHER)
            n &= ~(long)O_PATH; /* stands for a directory that the kernel refuses (view/found.c) */
        return n;
    }
    return kr_call_intr(__NR_fcntl, a[0], 0xffff, 0, 0, 0, 0); /* EBADF or EINVAL */
}

/* ---- setxattrat, getxattrat: struct xattr_args holds the pointer ---- */

struct xattr_args_k {
    u64 value;
    u32 size, flags;
};

static long xattr_args_in(struct xattr_args_k *x, u64 ptr, u64 size) {
    u8 more[256];
    if (kr_copy_in(x, ptr, sizeof *x) < 0)
        return -EFAULT;
    if (size > sizeof *x + sizeof more) /* a later kernel's version */
        return -E2BIG;
    u64 rest = size - sizeof *x;
    if (kr_copy_in(more, ptr + sizeof *x, rest) < 0)
        return -EFAULT;
    for (u64 i = 0; i < rest; i++)
        if (more[i])
            return -E2BIG;
    x->value = kr_guest_ptr(x->value, x->size);
    return 0;
}

static long xattrat(struct kr_task *t, long nr, const u64 a[6]) {
    struct xattr_args_k x;
    if (a[5] < sizeof x)
        return -EINVAL;
    long r = xattr_args_in(&x, a[4], a[5]);
    u64 b[6] = {a[0], a[1], a[2], a[3], (u64)&x, sizeof x};
    return r < 0 ? r : kr_path_at(t, nr, b, 2);
}

long sys_setxattrat(struct kr_task *t, const u64 a[6]) { return xattrat(t, 463, a); }

long sys_getxattrat(struct kr_task *t, const u64 a[6]) { return xattrat(t, 464, a); }
