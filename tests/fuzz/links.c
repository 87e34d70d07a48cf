// Symbolic links into /proc, links to links, links in the middle: nothing of "/proc" stands in the path that
// is used.
#include "fuzz.h"
#include <sys/inotify.h>

// What a link may lead to; %d: a process, %d: a descriptor, most of them the monitor's.
static const char *const targets[] = {
    "/proc/%d/fd/%d",
    "/proc/self/fd/%2$d",
    "/proc/thread-self/fd/%2$d",
    "/proc/%d/cwd",
    "/proc/%d/root",
    "/proc/%d/exe",
    "/proc/%d/task/%1$d/fd/%2$d",
    "/proc/self/fd",
    "l1",
    "/tmp/l2/.",
    "/tmp/l3",
    "/proc/%d/map_files",
    "/proc/%d",
    "/proc",
    "self/fd/%2$d",
    "/proc/%d/ns/pid",
    "/proc/self/task/../fd/%2$d",
    "..",
};
static const int by_path[] = {
    // path first
    SYS_stat,       SYS_lstat,       SYS_access,   SYS_statfs,    SYS_chdir,     SYS_readlink,
    SYS_truncate,   SYS_open,        SYS_creat,    SYS_unlink,    SYS_rmdir,     SYS_chmod,
    SYS_chown,      SYS_lchown,      SYS_utime,    SYS_mknod,     SYS_mkdir,     SYS_rename,
    SYS_link,       SYS_symlink,     SYS_getxattr, SYS_lgetxattr, SYS_listxattr, SYS_setxattr,
    SYS_llistxattr, SYS_removexattr, SYS_chroot,   SYS_utimes,    SYS_execve,    SYS_mount,
    SYS_umount2,    SYS_pivot_root,  SYS_acct,     SYS_swapoff,   SYS_uselib,    SYS_quotactl,
};
static const int at_path[] = {
    // directory, path
    SYS_openat,
    SYS_newfstatat,
    SYS_statx,
    SYS_faccessat,
    439 /* faccessat2 */,
    SYS_readlinkat,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_renameat,
    SYS_linkat,
    SYS_fchmodat,
    SYS_fchownat,
    SYS_utimensat,
    SYS_name_to_handle_at,
    428 /* open_tree */,
    SYS_inotify_add_watch,
    SYS_execveat,
    437 /* openat2 */,
    452 /* fchmodat2 */,
    SYS_futimesat,
    463 /* setxattrat */,
    464,
    465,
    466,
    467 /* open_tree_attr */,
    468 /* file_getattr */,
};

static u64 link_path(void) {
    static const char *const forms[] = {
        "/tmp/l%d", "/tmp/l%d/",   "/tmp/l%d/..",           "/tmp/l%d/x",     "/tmp/../tmp/l%d",
        "l%d",      "/tmp/l%d/l1", "/tmp/l%d/self/fd/1000", "/tmp/l%d/1/root"};
    char *p = spot(256);
    snprintf(p, 200, forms[below(COUNT(forms))], (int)below(6));
    return (u64)p;
}

void links(void) {
    char name[32], target[128];
    if (!below(3)) {
        snprintf(name, sizeof name, "/tmp/l%d", (int)below(6));
        snprintf(target, sizeof target, targets[below(COUNT(targets))], (int)process(), (int)descriptor());
        unlink(name);
        symlink(target, name);
    }
    if (!below(8))
        chdir(below(2) ? "/tmp" : "/");
    u64 where = link_path();
    if (below(2))
        call((u64)by_path[below(COUNT(by_path))],
             (u64[6]){where, below(2) ? link_path() : value(), below(2) ? value() : (u64)spot(256),
                      below(256), 0});
    else
        call((u64)at_path[below(COUNT(at_path))],
             (u64[6]){below(3) ? (u64)AT_FDCWD : descriptor(), where, below(3) ? (u64)spot(256) : value(),
                      below(2) ? 0x1000 : value(), below(3) ? (u64)spot(256) : value(), below(300)});
}
