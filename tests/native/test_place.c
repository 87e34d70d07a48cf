/* SPDX-License-Identifier: Apache-2.0
 * view/place.c, view/proclink.c: what cannot be judged is refused. Sources: procfs.c found.c protected.c hidden.c parent.c mapfiles.c place.c rules.c instance.c walk.c proclink.c procname.c procread.c
 * procview.c procsize.c proctext.c procmaps.c fdtab.c fdname.c fdslot.c fdlimit.c seccomp.c evaluate.c nnp.c kr_alloc.c
 */
#include "harness.h"
#include "machine/fdtab.h"
#include "view/place.h"
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stdio.h>

static struct kr_task *t;

static int path_fd(int dir, const char *name) {
    int fd = (int)kr_sys4(__NR_openat, dir, name, O_PATH, 0);
    CHECK(fd >= 0);
    return fd;
}

static int kind(int dir, const char *name) {
    u32 pid;
    int fd = path_fd(dir, name), is = kr_dir_kind(t, fd, &pid);
    kr_sys1(__NR_close, fd);
    return is;
}

static int verdict(int dir, const char *name) {
    struct kr_proc_name what;
    struct statx sx;
    int fd = path_fd(dir, name), is = kr_inspect(t, fd, &sx, &what);
    kr_sys1(__NR_close, fd);
    return is;
}

/* A procfs whose mount is in no table. */
static void without_a_place(void) {
    int fs = (int)kr_sys2(__NR_fsopen, "proc", 0);
    CHECK_EQ(kr_sys5(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0), 0);
    int root = (int)kr_sys3(__NR_fsmount, fs, 0, 0);
    CHECK(root >= 0);
    CHECK_EQ(kind(root, "."), KR_DIR_PLAIN);
    CHECK_EQ(kind(root, "self"), KR_DIR_PLAIN);
    CHECK_EQ(kind(root, "self/net"), KR_DIR_PLAIN);
    CHECK_EQ(kind(root, "sys/kernel"), KR_DIR_PLAIN);
    CHECK_EQ(kind(root, "self/fd"), KR_DIR_REFUSED);
    CHECK_EQ(kind(root, "self/fdinfo"), KR_DIR_REFUSED);
    CHECK_EQ(kind(root, "self/task"), KR_DIR_REFUSED);
    CHECK_EQ(kind(root, "self/map_files"), KR_DIR_REFUSED);
    CHECK_EQ(verdict(root, "self/cmdline"), KR_V_PASS);
    CHECK_EQ(verdict(root, "self/maps"), KR_V_DENY);
    CHECK_EQ(verdict(root, "self/mem"), KR_V_DENY);
    CHECK_EQ(verdict(root, "self/fdinfo/0"), KR_V_DENY);
    static const char *const hidden[] = {"/proc/self/map_files", "/proc/self/fd", "/proc/self/task",
                                         "/proc/self"};
    for (u32 i = 0; i < KR_COUNT(hidden); i++) { /* the root of a mount has no name */
        int tree = (int)kr_sys3(__NR_open_tree, AT_FDCWD, hidden[i], OPEN_TREE_CLONE);
        CHECK(tree >= 0);
        CHECK_EQ(kind(tree, "."), KR_DIR_REFUSED);
        kr_sys1(__NR_close, tree);
    }
    kr_sys1(__NR_close, root);
    kr_sys1(__NR_close, fs);
}

/* fdinfo/N as a mount of its own: the number was closed, and became one of the monitor's. mountinfo says "//deleted". */
static void unlinked(void) {
    static int hidden = -1;
    char name[64];
    struct statx sx;
    CHECK(kr_fd_hide((int)kr_sys1(__NR_dup, 0), 0, &hidden) >= 0);
    int fd = hidden;
    kr_fd_drop(&hidden);
    CHECK_EQ(kr_sys3(__NR_dup3, 0, fd, 0), fd);
    kr_snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    kr_sys1(__NR_close, kr_sys4(__NR_openat, AT_FDCWD, "kr-test-info", O_CREAT | 2, 0600));
    CHECK_EQ(kr_sys5(__NR_mount, name, "kr-test-info", 0, MS_BIND, 0), 0);
    kr_sys1(__NR_close, fd);
    CHECK(kr_sys5(__NR_statx, AT_FDCWD, name, 0, STATX_TYPE, &sx) <
          0); /* the kernel looks, and unhashes the entry */
    CHECK(kr_fd_hide((int)kr_sys1(__NR_dup, 0), 0, &hidden) >= 0);
    CHECK_EQ(hidden, fd);
    CHECK_EQ(verdict(AT_FDCWD, "kr-test-info"), KR_V_ABSENT);
    CHECK_EQ(kr_sys2(__NR_umount2, "kr-test-info", 2), 0);
    kr_fd_drop(&hidden);
    kr_sys1(__NR_unlink, "kr-test-info");
}

/* A procfs of another pid namespace, whole and in part: no number of it is the caller's, or one of the board. */
static int foreign(void) {
    struct kr_proc_name what = {0};
    struct statx sx;
    int status;
    kr_sys2(__NR_mkdir, "kr-test-p", 0700);
    kr_sys2(__NR_mkdir, "kr-test-q", 0700);
    CHECK_EQ(kr_sys1(__NR_unshare, CLONE_NEWPID), 0);
    long pid = kr_sys0(__NR_fork);
    if (pid == 0) {
        long r = kr_sys5(__NR_mount, "proc", "kr-test-p", "proc", 0, 0);
        r = r ? r : kr_sys5(__NR_mount, "kr-test-p/1", "kr-test-q", 0, MS_BIND, 0);
        kr_sys1(__NR_exit_group, r != 0);
    }
    struct {
        u64 words[16];
    } info;
    CHECK_EQ(kr_sys5(__NR_waitid, 1, pid, &info, 4 | 0x01000000, 0),
             0); /* P_PID, WEXITED | WNOWAIT: it keeps its directory */
    static const char *const files[] = {"kr-test-p/1/status", "kr-test-q/status", "/proc/self/status"};
    for (u32 i = 0; i < KR_COUNT(files); i++) {
        int fd = path_fd(AT_FDCWD, files[i]);
        CHECK_EQ(kr_inspect(t, fd, &sx, &what), i < 2 ? KR_V_TEXT : KR_V_VIEW);
        CHECK_EQ(what.numbers, i < 2 ? 0 : KR_NUMBERS_MINE | KR_NUMBERS_OURS);
        CHECK_EQ(kr_place_own(&what), i == 2);
        kr_sys1(__NR_close, fd);
    }
    CHECK_EQ(kr_sys4(__NR_wait4, pid, &status, 0, 0), pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(kr_sys2(__NR_umount2, "kr-test-q", 2), 0);
    CHECK_EQ(kr_sys2(__NR_umount2, "kr-test-p", 2), 0);
    kr_sys1(__NR_rmdir, "kr-test-q");
    kr_sys1(__NR_rmdir, "kr-test-p");
    return kr_test_failures != 0;
}

/* In a process of its own: the children that it makes afterwards are in the other namespace. */
static void other_namespace(void) {
    int status = -1;
    long pid = kr_sys0(__NR_fork);
    if (pid == 0) {
        kr_test_failures = 0;
        int failed = foreign();
        fflush(stdout);
        kr_sys1(__NR_exit_group, failed);
    }
    CHECK_EQ(kr_sys4(__NR_wait4, pid, &status, 0, 0), pid);
    CHECK_EQ(status, 0);
}

/* Devices whose write(2) takes addresses, and their neighbours. */
static void devices(void) {
    static const struct {
        u32 major, minor, type;
        int refused;
    } nodes[] = {{10, 203, S_IFCHR, 1},  {10, 202, S_IFCHR, 0},  {10, 239, S_IFCHR, 1},
                 {21, 0, S_IFCHR, 1},    {21, 300, S_IFCHR, 1},  {21, 0, S_IFBLK, 0},
                 {1, 3, S_IFCHR, 0},     {10, 229, S_IFCHR, 0},  {231, 192, S_IFCHR, 1},
                 {231, 191, S_IFCHR, 0}, {231, 224, S_IFCHR, 0}, {233, 0, S_IFCHR, 1},
                 {233, 130, S_IFCHR, 1}, {232, 0, S_IFCHR, 0}};
    for (u32 i = 0; i < KR_COUNT(nodes); i++) {
        struct statx sx;
        u32 dev = (nodes[i].minor & 0xff) | nodes[i].major << 8 | (nodes[i].minor & ~0xffu) << 12;
        CHECK_EQ(kr_sys3(__NR_mknod, "kr-test-node", nodes[i].type | 0600, dev), 0);
        int fd = path_fd(AT_FDCWD, "kr-test-node");
        CHECK_EQ(kr_stat_fd(fd, &sx), 0);
        CHECK_EQ(kr_write_refused(fd, &sx, O_RDONLY), 0);
        CHECK_EQ(kr_write_refused(fd, &sx, O_RDWR | O_NONBLOCK), nodes[i].refused ? -EPERM : 0);
        CHECK_EQ(kr_write_refused(fd, &sx, O_WRONLY), nodes[i].refused ? -EPERM : 0);
        kr_sys1(__NR_close, fd);
        kr_sys1(__NR_unlink, "kr-test-node");
    }
}

/* What the monitor or the kernel opens for writing in place of the payload. */
static void writes(void) {
    static const struct {
        const char *name;
        long may;
    } files[] = {{"kr-test-misc/register", -EROFS}, {"kr-test-misc/status", -EROFS},
                 {"/proc/self/mem", -EACCES},       {"/proc/self/comm", -EACCES},
                 {"/proc/self/cmdline", -EACCES},   {"/etc/passwd", 0}};
    kr_sys2(__NR_mkdir, "kr-test-misc", 0700);
    CHECK_EQ(kr_sys5(__NR_mount, "none", "kr-test-misc", "binfmt_misc", 0, 0), 0);
    for (u32 i = 0; i < KR_COUNT(files); i++) {
        struct statx sx;
        int fd = path_fd(AT_FDCWD, files[i].name);
        CHECK_EQ(kr_may_write(fd), files[i].may);
        CHECK_EQ(kr_stat_fd(fd, &sx), 0);
        CHECK_EQ(kr_write_refused(fd, &sx, O_RDONLY), 0);
        CHECK_EQ(kr_write_refused(fd, &sx, O_WRONLY), files[i].may == -EROFS ? -EROFS : 0);
        CHECK_EQ(kr_write_refused(fd, &sx, O_RDWR | O_TRUNC), files[i].may == -EROFS ? -EROFS : 0);
        kr_sys1(__NR_close, fd);
    }
    CHECK_EQ(kr_may_write(-1), -EACCES);
    CHECK_EQ(kr_sys2(__NR_umount2, "kr-test-misc", 2), 0);
    kr_sys1(__NR_rmdir, "kr-test-misc");
}

/* The host call nr fails with EPERM from now on. */
static void fails(u32 nr) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {KR_COUNT(code), code};
    CHECK_EQ(kr_sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(kr_sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
}

static void refuses(u32 nr, int type_known) {
    static const char *const files[] = {"/proc/self/mem", "/proc/self/map_files", "/proc/self/exe"};
    for (u32 i = 0; i < KR_COUNT(files); i++) {
        struct kr_proc_name what;
        struct statx sx;
        u32 pid;
        int fd = (int)kr_sys4(__NR_openat, AT_FDCWD, files[i], O_PATH | O_NOFOLLOW, 0);
        enum kr_verdict v = kr_inspect(t, fd, &sx, &what);
        if (i != 1)
            CHECK(v == KR_V_DENY || (type_known && v == KR_V_EXE));
        else
            CHECK(kr_dir_kind(t, fd, &pid) == (type_known ? KR_DIR_EMPTY : KR_DIR_REFUSED));
        if (kr_test_failures)
            printf("call %u fails: %s\n", nr, files[i]);
        kr_sys1(__NR_close, fd);
    }
}

static void a_call_fails(void) {
    static const struct {
        u32 nr;
        int type_known; /* the entry can be judged without the call */
    } calls[] = {{__NR_fstatfs, 1}, {__NR_readlinkat, 0}, {__NR_statx, 0}};
    for (u32 i = 0; i < KR_COUNT(calls); i++) {
        int status = -1;
        long pid = kr_sys0(__NR_fork);
        if (pid == 0) {
            kr_test_failures = 0;
            fails(calls[i].nr);
            refuses(calls[i].nr, calls[i].type_known);
            fflush(stdout);
            kr_sys1(__NR_exit_group, kr_test_failures != 0);
        }
        CHECK_EQ(kr_sys4(__NR_wait4, pid, &status, 0, 0), pid);
        CHECK_EQ(status, 0);
    }
}

void test_main(void) {
    kr_test_boot();
    int number;
    int *const fixed[KR_FD_FIXED] = {NULL, &kr_boot.fd_exe, &kr_boot.fd_proc};
    int plug = (int)kr_sys3(__NR_open, "/proc/self", O_PATH | O_NOFOLLOW, 0);
    CHECK_EQ(kr_fd_fix(fixed, plug, &number), 0);
    t = kr_test_task();
    t->proc->refs = 1;
    without_a_place();
    unlinked();
    writes();
    devices();
    other_namespace();
    a_call_fails();
}
