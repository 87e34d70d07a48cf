/* SPDX-License-Identifier: Apache-2.0
 * view/procfs.c, view/procview.c, sys/open.c against the real /proc. Sources: procfs.c found.c protected.c hidden.c parent.c mapfiles.c place.c rules.c instance.c walk.c proclink.c procname.c procread.c
 * procview.c procsize.c proctext.c procmaps.c fdtab.c fdname.c fdslot.c fdlimit.c open.c stat.c name.c path.c xattr.c cwd.c dirent.c fd.c seccomp.c evaluate.c nnp.c kr_alloc.c
 */
#include "harness.h"
#include "machine/fdtab.h"
#include "machine/mm.h"
#include "view/procfs.h"
#include "sys/path.h"
#include "sys/table.h"
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/openat2.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/stat.h>

#define WRONLY 1
#define RDWR 2

kr_sys_fn sys_open_by_handle_at, sys_setxattr, sys_removexattr, sys_acct, sys_linkat, sys_open, sys_openat,
    sys_openat2, sys_stat, sys_lstat, sys_statfs, sys_access, sys_newfstatat, sys_statx, sys_readlink,
    sys_getdents64, sys_chdir, sys_dup2, sys_dup3, sys_close, sys_close_range;
const struct kr_sys_row *kr_sys_row(u64 nr) {
    (void)nr;
    return NULL;
}

static struct kr_task *t;
static char *mem; /* guest memory */
static int hidden;

static u64 str(u32 at, const char *s) {
    memcpy(mem + at, s, strlen(s) + 1);
    return (u64)(mem + at);
}

static long do_open(const char *path, u32 flags) {
    u64 a[6] = {str(0, path), flags, 0600};
    return sys_open(t, a);
}

static long at(int dirfd, const char *path, u32 flags) {
    u64 a[6] = {(u64)(s64)dirfd, str(0, path), flags, 0600};
    return sys_openat(t, a);
}

static void shut(long fd) {
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
}

static long fail_open(const char *path, u32 flags) {
    long fd = do_open(path, flags);
    shut(fd);
    return fd >= 0 ? 0 : fd;
}

static long text(long fd, char *buf, size_t size) {
    long n, have = 0;
    while (have < (long)size - 1 && (n = kr_sys3(__NR_read, fd, buf + have, size - 1 - (size_t)have)) > 0)
        have += n;
    buf[have] = 0;
    return have;
}

static u64 inode(long fd) {
    u64 st[18];
    return kr_sys2(__NR_fstat, fd, st) == 0 ? st[1] : 0;
}

static char path[128], own[64];
static const char *fmt(const char *f, long a, long b) {
    kr_snprintf(path, sizeof path, f, a, b);
    return path;
}

static void ordinary(void) {
    kr_sys1(__NR_unlink, "/tmp/kr-test-file");
    kr_sys1(__NR_unlink, "/tmp/kr-test-link");
    kr_sys1(__NR_unlink, "/tmp/kr-test-loop");
    kr_sys2(__NR_symlink, "kr-test-file", "/tmp/kr-test-link");
    kr_sys2(__NR_symlink, "kr-test-loop", "/tmp/kr-test-loop");
    long low = do_open("/dev/null", 0);
    shut(low);
    CHECK_EQ(fail_open("/tmp/kr-test-file", 0), -ENOENT);
    CHECK_EQ(fail_open("/tmp/kr-test-link", 0), -ENOENT);
    CHECK_EQ(fail_open("/tmp/kr-test-loop", 0), -ELOOP);
    CHECK_EQ(fail_open("/tmp/kr-test-loop", O_CREAT | WRONLY), -ELOOP);
    CHECK_EQ(fail_open("/tmp/kr-test-link", O_NOFOLLOW), -ELOOP);
    CHECK_EQ(fail_open("/tmp/kr-test-link", O_CREAT | O_EXCL | WRONLY), -EEXIST);
    CHECK_EQ(fail_open("", 0), -ENOENT);
    CHECK_EQ(fail_open("/tmp/none/x", O_CREAT | WRONLY), -ENOENT);
    CHECK_EQ(fail_open("/tmp", O_CREAT | RDWR), -EISDIR);
    CHECK_EQ(fail_open("/tmp", RDWR), -EISDIR);
    CHECK_EQ(fail_open("/etc/passwd/", 0), -ENOTDIR);
    CHECK_EQ(fail_open("/etc/passwd/x", O_CREAT | WRONLY), -ENOTDIR);
    long fd = do_open("/tmp/kr-test-link", O_CREAT | RDWR); /* makes the link's target */
    CHECK_EQ(fd, low);
    CHECK_EQ(kr_sys3(__NR_fcntl, fd, F_GETFL, 0), RDWR | O_LARGEFILE);
    CHECK_EQ(kr_sys3(__NR_fcntl, fd, F_GETFD, 0), 0);
    CHECK_EQ(kr_sys3(__NR_write, fd, "hello", 5), 5);
    long fd2 = do_open("/tmp/kr-test-file", O_CLOEXEC | O_APPEND | WRONLY);
    CHECK_EQ(fd2, low + 1);
    CHECK_EQ(kr_sys3(__NR_fcntl, fd2, F_GETFD, 0), FD_CLOEXEC);
    CHECK_EQ(kr_sys3(__NR_fcntl, fd2, F_GETFL, 0), WRONLY | O_APPEND | O_LARGEFILE);
    CHECK_EQ(inode(fd), inode(fd2));
    shut(fd2);
    /* /dev/fd, /proc/self/fd/N: the file anew, at offset 0 */
    fd2 = do_open(fmt("/proc/self/fd/%ld", fd, 0), 0);
    CHECK_EQ(fd2, low + 1);
    CHECK_EQ(inode(fd), inode(fd2));
    CHECK_EQ(text(fd2, mem + 512, 64), 5);
    shut(fd2);
    fd2 = do_open(fmt("/dev/fd/%ld", fd, 0), O_TRUNC | WRONLY | O_CREAT);
    CHECK_EQ(fd2, low + 1);
    shut(fd2);
    CHECK_EQ(fail_open(fmt("/proc/self/fd/%ld", fd, 0), O_NOFOLLOW), -ELOOP);
    CHECK_EQ(fail_open(fmt("/proc/self/fd/%ld/", fd, 0), 0), -ENOTDIR);
    CHECK_EQ(fail_open(fmt("/proc/self/fd/%ld/x", fd, 0), O_CREAT | RDWR), -ENOTDIR);
    CHECK_EQ(fail_open("/proc/self/fd/999", 0), -ENOENT);
    shut(fd);
    /* magic directory links */
    fd = do_open("/proc/self/root/tmp/kr-test-file", 0);
    CHECK_EQ(fd, low);
    shut(fd);
    fd = do_open("/proc/self/root/../proc/self/root/tmp/../tmp//./kr-test-new", O_CREAT | O_EXCL | RDWR);
    CHECK_EQ(fd, low);
    shut(fd);
    CHECK_EQ(fail_open("/proc/self/root/tmp/kr-test-new", O_CREAT | O_EXCL | RDWR), -EEXIST);
    CHECK_EQ(kr_sys1(__NR_unlink, "/tmp/kr-test-new"), 0);
    fd = do_open("/proc/self/root/tmp", O_DIRECTORY);
    CHECK_EQ(fd, low);
    shut(fd);
    fd = do_open("/proc/self/root/tmp", __O_TMPFILE | O_DIRECTORY | RDWR);
    CHECK(fd == low || fd == -EOPNOTSUPP);
    shut(fd);
    fd = do_open("/proc/self/root", O_PATH | O_CLOEXEC);
    CHECK_EQ(fd, low);
    CHECK_EQ(kr_sys3(__NR_fcntl, fd, F_GETFD, 0), FD_CLOEXEC);
    shut(fd);
    /* a FIFO: does not block without waiting for it */
    kr_sys1(__NR_unlink, "/tmp/kr-test-fifo");
    kr_sys3(__NR_mknod, "/tmp/kr-test-fifo", 0010600, 0);
    CHECK_EQ(fail_open("/tmp/kr-test-fifo", WRONLY | O_NONBLOCK), -ENXIO);
    fd = do_open("/tmp/kr-test-fifo", O_NONBLOCK);
    CHECK_EQ(fd, low);
    shut(fd);
    kr_sys1(__NR_unlink, "/tmp/kr-test-fifo");
    /* nothing is left open */
    fd = do_open("/dev/null", 0);
    CHECK_EQ(fd, low);
    shut(fd);
}

static void own_process(void) {
    long low = do_open("/dev/null", 0);
    shut(low);
    long pid = kr_sys0(__NR_getpid);
    kr_snprintf(own, sizeof own, "/proc/%ld", pid);
    static const char *const refused[] = {"mem", "pagemap", "clear_refs", "stack"};
    static const char *const dirs[] = {"/proc/self", "/proc/thread-self", "", "/proc/../proc/self/task/../",
                                       "/proc/self/task/%ld"};
    for (u32 i = 0; i < KR_COUNT(refused); i++)
        for (u32 j = 0; j < KR_COUNT(dirs); j++) {
            char p[128], d[64];
            kr_snprintf(d, sizeof d, *dirs[j] ? dirs[j] : own, pid);
            kr_snprintf(p, sizeof p, "%s/%s", d, refused[i]);
            u32 mode = refused[i][0] == 'c' ? WRONLY : 0;
            long r = fail_open(p, mode);
            /* not every kernel has every file for threads */
            if (r != -EACCES && r != -ENOENT) {
                printf("%s: %ld\n", p, r);
                CHECK(0);
            }
        }
    CHECK_EQ(fail_open("/proc/self/mem", RDWR), -EACCES);
    CHECK_EQ(fail_open("/proc/self/root/proc/self/mem", RDWR), -EACCES);
    CHECK_EQ(fail_open("/proc/1/mem", 0), -EACCES);
    CHECK_EQ(fail_open("/proc/1/maps", 0), -EACCES);
    /* by a directory, a relative name, O_PATH first */
    long dir = do_open("/proc/self", O_DIRECTORY);
    CHECK_EQ(at((int)dir, "mem", RDWR), -EACCES);
    CHECK_EQ(at((int)dir, "task/../mem", RDWR), -EACCES);
    shut(dir);
    long op = do_open("/proc/self/mem", O_PATH);
    CHECK(op >= 0); /* harmless by itself */
    CHECK_EQ(fail_open(fmt("/proc/self/fd/%ld", op, 0), RDWR), -EACCES);
    shut(op);
    /* a link */
    kr_sys1(__NR_unlink, "/tmp/kr-test-link");
    kr_sys2(__NR_symlink, "/proc/self/mem", "/tmp/kr-test-link");
    CHECK_EQ(fail_open("/tmp/kr-test-link", RDWR), -EACCES);
    CHECK_EQ(fail_open("/tmp/kr-test-link", RDWR | O_CREAT), -EACCES);
    kr_sys1(__NR_unlink, "/tmp/kr-test-link");

    /* exe */
    u64 exe = inode(t->proc->exe_fd);
    long fd = do_open("/proc/self/exe", 0);
    CHECK_EQ(fd, low);
    CHECK_EQ(inode(fd), exe);
    shut(fd);
    dir = do_open("/proc", O_DIRECTORY);
    fd = at((int)dir, fmt("%ld/task/%ld/exe", pid, pid), O_PATH);
    CHECK_EQ(inode(fd), exe);
    shut(fd);
    shut(dir);
    fd = do_open("/proc/self/exe", O_PATH | O_NOFOLLOW);
    CHECK(fd >= 0);
    u64 a[6] = {0, (u64)(mem + 1024), 200};
    CHECK_EQ(kr_readlink(t, (int)fd, "", mem + 1024, 200), 10);
    CHECK(memcmp(mem + 1024, "/etc/group", 10) == 0);
    shut(fd);
    a[0] = str(0, "/proc/self/exe");
    CHECK_EQ(sys_readlink(t, a), 10);
    CHECK(memcmp(mem + 1024, "/etc/group", 10) == 0);
    a[2] = 3;
    CHECK_EQ(sys_readlink(t, a), 3);
    u64 st[6] = {str(0, "/proc/self/exe"), (u64)(mem + 2048)};
    CHECK_EQ(sys_stat(t, st), 0);
    CHECK_EQ(((u64 *)(mem + 2048))[1], exe);
    u64 sx[6] = {(u64)(s64)AT_FDCWD, str(0, "/proc/self/exe"), 0, 0x7ff, (u64)(mem + 2048)};
    CHECK_EQ(sys_statx(t, sx), 0);
    CHECK_EQ(((struct statx *)(mem + 2048))->stx_ino, exe);
    CHECK_EQ(fail_open("/proc/1/exe", 0), -EACCES);

    /* hidden descriptors */
    CHECK_EQ(fail_open(fmt("/proc/self/fd/%ld", hidden, 0), 0), -ENOENT);
    CHECK_EQ(fail_open(fmt("/proc/self/fd/%ld", hidden, 0), O_CREAT | RDWR), -ENOENT);
    CHECK_EQ(fail_open(fmt("/dev/fd/%ld/self/mem", kr_boot.fd_proc, 0), 0), -ENOENT);
    CHECK_EQ(fail_open(fmt("/proc/self/fd/%ld", hidden, 0), O_PATH), -ENOENT);
    CHECK_EQ(fail_open(fmt("/proc/self/fdinfo/%ld", hidden, 0), 0), -ENOENT);
    CHECK_EQ(fail_open(fmt("/proc/%ld/fd/%ld", pid, hidden), 0), -ENOENT);
    a[0] = str(0, fmt("/proc/self/fd/%ld", hidden, 0));
    a[2] = 200;
    CHECK_EQ(sys_readlink(t, a), -ENOENT);
    a[0] = str(0, fmt("/proc/self/fd/%ld", 0, 0));
    CHECK(sys_readlink(t, a) > 0);
    u64 ls[6] = {str(0, fmt("/proc/self/fd/%ld", hidden, 0)), (u64)(mem + 2048)};
    CHECK_EQ(sys_lstat(t, ls), -ENOENT);
    CHECK_EQ(sys_stat(t, ls), -ENOENT);
    str(0, fmt("/proc/self/fd/../fd/%ld/x", hidden, 0));
    CHECK_EQ(sys_lstat(t, ls), -ENOENT);
    CHECK_EQ(sys_stat(t, ls), -ENOENT);
    str(0, fmt("/proc/self/fd/%ld", 0, 0));
    CHECK_EQ(sys_lstat(t, ls), 0);
    CHECK_EQ(sys_stat(t, ls), 0);
    kr_sys2(__NR_symlink, fmt("/proc/self/fd/%ld", hidden, 0),
            "/tmp/kr-test-link"); /* its text says nothing */
    str(0, "/tmp/kr-test-link");
    CHECK_EQ(sys_lstat(t, ls), 0);
    CHECK_EQ(sys_stat(t, ls), -ENOENT);
    CHECK_EQ(sys_statfs(t, ls), -ENOENT);
    ls[1] = 0;
    CHECK_EQ(sys_access(t, ls), -ENOENT);
    kr_sys1(__NR_unlink, "/tmp/kr-test-link");
    u64 xa[6] = {str(0, fmt("/proc/self/fd/%ld", hidden, 0)), str(1024, "user.x"), str(1100, "v"), 1, 0};
    CHECK_EQ(sys_setxattr(t, xa), -ENOENT);
    CHECK_EQ(sys_removexattr(t, xa), -ENOENT);
    CHECK_EQ(sys_acct(t, xa), -ENOENT);
    u64 la[6] = {(u64)AT_FDCWD, xa[0], (u64)AT_FDCWD, str(1024, "made"), AT_SYMLINK_FOLLOW};
    CHECK_EQ(sys_linkat(t, la), -ENOENT);
    u64 cd[6] = {str(0, fmt("/proc/self/fd/%ld", kr_boot.fd_proc, 0))};
    CHECK_EQ(sys_chdir(t, cd), -ENOENT);
    cd[0] = str(0, "/proc/self/cwd");
    CHECK_EQ(sys_chdir(t, cd), 0);
    cd[0] = str(0, "/etc/passwd");
    CHECK_EQ(sys_chdir(t, cd), -ENOTDIR);
    fd = do_open("/proc/self/fd", O_DIRECTORY);
    u64 gd[6] = {(u64)fd, (u64)(mem + 4096), 4096};
    long n = sys_getdents64(t, gd);
    CHECK(n > 0);
    int seen0 = 0;
    for (long i = 0; i < n; i += *(u16 *)(mem + 4096 + i + 16)) {
        const char *name = mem + 4096 + i + 19;
        seen0 |= strcmp(name, "0") == 0;
        CHECK(strcmp(name, fmt("%ld", hidden, 0)) != 0);
        CHECK(strcmp(name, fmt("%ld", kr_boot.fd_proc, 0)) != 0);
    }
    CHECK(seen0);
    CHECK_EQ(sys_getdents64(t, gd), 0);
    shut(fd);

    /* texts */
    static char buf[65536];
    static const char *const views[] = {"maps", "smaps", "numa_maps"};
    for (u32 i = 0; i < 3; i++) {
        kr_snprintf(path, sizeof path, "/proc/self/%s", views[i]);
        fd = do_open(path, 0);
        if (fd == -ENOENT)
            continue;
        CHECK_EQ(fd, low);
        CHECK(text(fd, buf, sizeof buf) > 50);
        CHECK(!strchr(buf, 'T') || i); /* nothing of the test's own text */
        for (const char *p = buf; *p; p = strchr(p, '\n') + 1) {
            if (*p >= '0' && *p <= '9')
                CHECK(p[0] != '7' || p[1] != 'f');
        }
        if (i == 0) {
            char want[128];
            u64 m = (u64)mem;
            kr_snprintf(want, sizeof want, "%08lx-%08lx r-xp 00000000 00:00 0 \n", m, m + 4096);
            CHECK(strncmp(buf, want, strlen(want)) == 0);
            kr_snprintf(want, sizeof want,
                        "%08lx-%08lx rw-p 00000000 00:00 0                          [heap]\n", m + 4096,
                        m + 16384);
            CHECK(strncmp(strchr(buf, '\n') + 1, want, strlen(want)) == 0);
        }
        CHECK_EQ(kr_sys3(__NR_write, fd, "x", 1), -EBADF);
        shut(fd);
    }
    fd = do_open("/proc/self/status", 0);
    CHECK_EQ(fd, low);
    text(fd, buf, sizeof buf);
    CHECK(strchr(buf, '\n') != NULL);
    const char *s = buf;
    int found = 0;
    for (; *s; s = strchr(s, '\n') + 1)
        found |= strncmp(s, "Seccomp:\t0\n", 11) == 0;
    CHECK(found);
    shut(fd);
    CHECK_EQ(fail_open("/proc/self/maps", RDWR), -EACCES);
    CHECK_EQ(fail_open("/proc/self/stat", 0), 0);
    CHECK_EQ(fail_open("/proc/self/comm", RDWR), 0);
    CHECK_EQ(fail_open("/proc/sys/kernel/pid_max", 0), 0);
    CHECK_EQ(fail_open("/proc/1/status", 0), 0);
    CHECK_EQ(fail_open("/proc/meminfo", 0), 0);
    fd = do_open("/dev/null", 0);
    CHECK_EQ(fd, low);
    shut(fd);
}

static void strict_resolution(void) {
    struct open_how *how = (void *)(mem + 3072);
    u64 a[6] = {(u64)(s64)AT_FDCWD, str(0, "/proc/self/fd/0"), (u64)how, sizeof *how};
    *how = (struct open_how){.flags = 0, .resolve = RESOLVE_NO_MAGICLINKS};
    CHECK_EQ(sys_openat2(t, a), -ELOOP);
    how->resolve = RESOLVE_NO_XDEV;
    CHECK_EQ(sys_openat2(t, a), -EXDEV);
    how->resolve = 64;
    CHECK_EQ(sys_openat2(t, a), -EINVAL);
    how->resolve = 0;
    how->mode = 0600;
    CHECK_EQ(sys_openat2(t, a), -EINVAL);
    how->mode = 0;
    a[3] = 16;
    CHECK_EQ(sys_openat2(t, a), -EINVAL);
    a[3] = 5000;
    CHECK_EQ(sys_openat2(t, a), -E2BIG);
    memset(mem + 3072, 0, 64);
    a[3] = 64;
    long fd = sys_openat2(t, a);
    CHECK(fd >= 0);
    shut(fd);
    mem[3072 + 40] = 1;
    CHECK_EQ(sys_openat2(t, a), -E2BIG);
    a[2] = 0x1000;
    CHECK_EQ(sys_openat2(t, a), -EFAULT);
    u64 bad[6] = {0x1000, 0};
    CHECK_EQ(sys_open(t, bad), -EFAULT);
}

static void numbers(void) {
    long fd = do_open("/dev/null", 0);
    u64 d2[6] = {(u64)hidden, 50};
    CHECK_EQ(sys_dup2(t, d2), -EBADF);
    u64 cl[6] = {(u64)hidden};
    CHECK_EQ(sys_close(t, cl), -EBADF);
    u64 d3[6] = {(u64)fd, (u64)hidden, O_CLOEXEC};
    CHECK_EQ(sys_dup3(t, d3), -EBADF); /* as a number beyond the limit */
    CHECK_EQ(sys_dup2(t, d3), -EBADF);
    u64 cr[6] = {(u64)hidden, (u64)~0u, 0};
    CHECK_EQ(sys_close_range(t, cr), 0);
    CHECK(kr_sys3(__NR_fcntl, hidden, F_GETFD, 0) >= 0);
    d3[0] = d3[1] = 0;
    CHECK_EQ(sys_dup3(t, d3), -EINVAL);
    d3[1] = 9;
    d3[2] = 4;
    CHECK_EQ(sys_dup3(t, d3), -EINVAL);
    shut(fd);
}

static void bind_mounts(void) {
    /* In a mount namespace of our own: entries under other names. */
    if (kr_sys1(__NR_unshare, CLONE_NEWNS) < 0 ||
        kr_sys5(__NR_mount, 0, "/", 0, (1 << 18) | (1 << 14) /* MS_PRIVATE | MS_REC */, 0) < 0) {
        printf("SKIP bind mounts: no privilege\n");
        return;
    }
    kr_sys2(__NR_mkdir, "/tmp/kr-test-99", 0700);
    shut(kr_sys3(__NR_open, "/tmp/kr-test-99/status", O_CREAT | RDWR, 0600));
    CHECK_EQ(kr_sys5(__NR_mount, "/proc/self/mem", "/tmp/kr-test-99/status", 0, 4096 /* MS_BIND */, 0), 0);
    CHECK_EQ(fail_open("/tmp/kr-test-99/status", RDWR), -EACCES);
    CHECK_EQ(kr_sys2(__NR_umount2, "/tmp/kr-test-99/status", 2), 0);
    kr_sys1(__NR_unlink, "/tmp/kr-test-99/status");
    CHECK_EQ(kr_sys5(__NR_mount, "/proc/self", "/tmp/kr-test-99", 0, 4096, 0), 0);
    CHECK_EQ(fail_open("/tmp/kr-test-99/mem", RDWR), -EACCES);
    long fd = do_open("/tmp/kr-test-99/maps", 0);
    static char buf[8192];
    CHECK(fd >= 0 && text(fd, buf, sizeof buf) > 0);
    CHECK(strncmp(buf, fmt("%08lx-", (long)mem, 0), 12) == 0);
    shut(fd);
    fd = do_open("/tmp/kr-test-99/exe", 0);
    CHECK_EQ(inode(fd), inode(t->proc->exe_fd));
    shut(fd);
    CHECK_EQ(fail_open(fmt("/tmp/kr-test-99/fd/%ld", hidden, 0), 0), -ENOENT);
    CHECK_EQ(kr_sys2(__NR_umount2, "/tmp/kr-test-99", 2), 0);
    CHECK_EQ(kr_sys5(__NR_mount, "proc", "/tmp/kr-test-99", "proc", 0, 0), 0);
    CHECK_EQ(fail_open("/tmp/kr-test-99/self/mem", RDWR), -EACCES);
    fd = do_open("/tmp/kr-test-99/self/exe", 0);
    CHECK_EQ(inode(fd), inode(t->proc->exe_fd));
    shut(fd);
    CHECK_EQ(kr_sys2(__NR_umount2, "/tmp/kr-test-99", 2), 0);
    kr_sys1(__NR_rmdir, "/tmp/kr-test-99");
}

static void parser(void) {
    static const struct {
        const char *name;
        enum kr_proc_entry entry;
        u64 pid, tid, n;
    } cases[] = {
        {"12/maps", KR_PE_MAPS, 12, 0, 0},
        {"12/task/13/mem", KR_PE_MEM, 12, 13, 0},
        {"12/pagemap", KR_PE_PAGEMAP, 12, 0, 0},
        {"12/fd/7", KR_PE_FD_N, 12, 0, 7},
        {"12/task/12/fdinfo/1023", KR_PE_FDINFO_N, 12, 12, 1023},
        {"12/fd", KR_PE_FD, 12, 0, 0},
        {"12/map_files/1000-2000", KR_PE_MAP_FILES_N, 12, 0, 0},
        {"12", KR_PE_OTHER, 12, 0, 0},
        {"12/", KR_PE_OTHER, 12, 0, 0},
        {"12/mem/x", KR_PE_OTHER, 12, 0, 0},
        {"12/fd/x", KR_PE_REFUSED, 12, 0, 0},
        {"12/fd/1/2", KR_PE_REFUSED, 12, 0, 0},
        {"12/fdinfo/7//deleted", KR_PE_REFUSED, 12, 0, 0},
        {"12/task/x/mem", KR_PE_OTHER, 12, 0, 0},
        {"12/task", KR_PE_TASK, 12, 0, 0},
        {"12/task/", KR_PE_TASK, 12, 0, 0},
        {"sys/mem", KR_PE_OTHER, 0, 0, 0},
        {"12345678901/mem", KR_PE_OTHER, 0, 0, 0},
        {"", KR_PE_OTHER, 0, 0, 0},
        {"/12/mem", KR_PE_OTHER, 0, 0, 0},
        {"12/smaps_rollup", KR_PE_SMAPS_ROLLUP, 12, 0, 0},
        {"12/stat", KR_PE_STAT, 12, 0, 0},
        {"12/memo", KR_PE_OTHER, 12, 0, 0},
    };
    for (u32 i = 0; i < KR_COUNT(cases); i++) {
        struct kr_proc_name w;
        kr_proc_parse(cases[i].name, &w);
        if (w.entry != cases[i].entry || w.pid != cases[i].pid ||
            (w.entry && (w.tid != cases[i].tid || w.n != cases[i].n))) {
            printf("%s: entry %d pid %lu tid %lu n %lu\n", cases[i].name, w.entry, w.pid, w.tid, w.n);
            CHECK(0);
        }
    }
    CHECK(kr_proc_suspect("mem") && kr_proc_suspect("17") && kr_proc_suspect("exe"));
    CHECK(kr_proc_suspect("statm") && !kr_proc_suspect("statn") && !kr_proc_suspect("") &&
          !kr_proc_suspect("memory"));

    /* Fuzz: random strings from an alphabet of pieces; a suspect name is never taken for harmless when it has
     * PID/name form. */
    static const char *const pieces[] = {"/",  "//",   "task", "fd",     "mem", "maps", "1",
                                         "99", "self", "",     "fdinfo", "x",   ".",    "exe"};
    for (int i = 0; i < 200000; i++) {
        char *s = malloc(64); /* exact end: ASan sees an overrun */
        size_t len = 0;
        s[0] = 0;
        for (u64 k = kr_test_below(9); k; k--) {
            const char *p = pieces[kr_test_below(KR_COUNT(pieces))];
            size_t n = strlen(p);
            if (len + n >= 64)
                break;
            memcpy(s + len, p, n + 1);
            len += n;
        }
        char *tight = malloc(len + 1);
        memcpy(tight, s, len + 1);
        struct kr_proc_name w;
        kr_proc_parse(tight, &w);
        kr_proc_suspect(tight);
        CHECK(w.entry == KR_PE_OTHER || w.pid > 0);
        free(tight);
        free(s);
    }
}

/* A handle of a device node is opened by the rule for open(2). */
static void handles(void) {
    static const struct {
        u32 dev;
        long rw;
    } nodes[] = {{21 << 8, -EPERM}, {1 << 8 | 3, 0}};
    for (u32 i = 0; i < KR_COUNT(nodes); i++) {
        u32 head[34] = {128};
        s32 id;
        long at = kr_sys3(__NR_open, ".", O_DIRECTORY, 0);
        CHECK_EQ(kr_sys3(__NR_mknod, "kr-test-node", 0020600, nodes[i].dev), 0);
        CHECK_EQ(kr_sys5(__NR_name_to_handle_at, at, "kr-test-node", head, &id, 0), 0);
        memcpy(mem + 8192, head, sizeof head);
        u64 a[6] = {(u64)at, (u64)(mem + 8192), RDWR | O_CLOEXEC};
        long fd = sys_open_by_handle_at(t, a);
        CHECK_EQ(fd < 0 ? fd : 0, nodes[i].rw);
        shut(fd);
        a[2] = O_PATH;
        fd = sys_open_by_handle_at(t, a);
        CHECK(fd >= 0);
        shut(fd);
        a[1] = KR_BAD_PTR;
        CHECK_EQ(sys_open_by_handle_at(t, a), -EFAULT);
        kr_sys1(__NR_unlink, "kr-test-node");
        shut(at);
    }
}

void test_main(void) {
    parser();
    kr_test_boot();
    int number;
    int *const fixed[KR_FD_FIXED] = {NULL, &kr_boot.fd_exe, &kr_boot.fd_proc};
    int plug = (int)kr_sys3(__NR_open, "/proc/self", O_PATH | O_NOFOLLOW, 0);
    CHECK_EQ(kr_fd_fix(fixed, plug, &number), 0);
    kr_fd_hide((int)kr_sys3(__NR_open, "/dev/zero", 0, 0), 0, &hidden);
    t = kr_test_task();
    mem = kr_test_window(16384);
    kr_sys3(__NR_mprotect, mem, 4096, PROT_READ | PROT_WRITE);
    struct kr_vma vma[2] = {
        {(u64)mem, (u64)mem + 4096, PROT_READ | PROT_EXEC, KR_VMA_ANON},
        {(u64)mem + 4096, (u64)mem + 16384, PROT_READ | PROT_WRITE, KR_VMA_ANON | KR_VMA_HEAP}};
    t->mm->vma = vma;
    t->mm->nvma = 2;
    kr_fd_hide((int)kr_sys3(__NR_open, "/etc/group", 0, 0), 1, &t->proc->exe_fd);
    for (t->proc->refs = 1; t->proc->refs <= 2; t->proc->refs++) {
        int before = kr_test_failures;
        ordinary();
        own_process();
        strict_resolution();
        handles();
        if (kr_test_failures != before)
            printf("with %u thread(s)\n", t->proc->refs);
    }
    t->proc->refs = 1;
    numbers();
    bind_mounts();
    t->proc->refs = 2;
}
