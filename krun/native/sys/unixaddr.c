/* SPDX-License-Identifier: Apache-2.0
 * connect, bind, sendto: the address is copied in. The object of an AF_UNIX path is found with judgement,
 * because /proc/PID/root of a process of the host would lead to the host's sockets. The kernel gets the path
 * of the object's descriptor in the container's /proc, if that leads to the object. Otherwise it gets the
 * path in the monitor's procfs, in a call by a thread whose working directory is that procfs (a signal does
 * not interrupt that call).
 *
 * bind(2) makes a name, and the kernel shows the text of the name to every peer. So the kernel gets a copy of
 * the payload's own text, after the directory has been found with judgement.
 *
 * No state, no locks.
 */
#include "unixaddr.h"
#include "path.h"
#include "table.h"
#include "../process/process.h"
#include "../view/procfs.h"
#include <linux/fcntl.h>
#include <linux/stat.h>

#define FAMILY_UNIX 1
#define HEAD 2        /* sun_family */
#define PATH_MOST 108 /* sun_path */
#define SOL_SOCKET_K 1
#define SO_DOMAIN_K 39

/* Copies the address in. Whether it is an AF_UNIX address with a path; then path[PATH_MOST + 1] has the
 * path. */
static int path_in(u64 ptr, u64 len, struct kr_addr *x, char *path) {
    u16 family;
    *x = (struct kr_addr){.ptr = ptr, .len = len, .fd = -1};
    if (!ptr || !len)
        return 0;
    if (len > KR_ADDR_MAX || kr_copy_in(x->name, ptr, len) < 0) {
        x->ptr = KR_BAD_PTR; /* EINVAL or EFAULT */
        return 0;
    }
    x->ptr = (u64)x->name;
    memcpy(&family, x->name, HEAD);
    if (len <= HEAD || family != FAMILY_UNIX || !x->name[HEAD])
        return 0;
    size_t n = KR_MIN(len - HEAD, (u64)PATH_MOST);
    memcpy(path, x->name + HEAD, n);
    path[n] = 0;
    return len - HEAD <= PATH_MOST; /* a longer one is EINVAL */
}

/* Keeps the length if it suffices: sockets of other families check the length first. */
static void set_path(struct kr_addr *x, const char *path) {
    u64 len = HEAD + (u64)kr_snprintf(x->name + HEAD, PATH_MOST, "%s", path) + 1;
    x->len = KR_MAX(x->len, len);
}

/* Whether the container's own /proc leads to fd. */
static int shows(const char *path, int fd) {
    struct statx here, there;
    return kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &here) == 0 &&
           kr_sys5(__NR_statx, AT_FDCWD, path, 0, STATX_INO, &there) == 0 && here.stx_ino == there.stx_ino &&
           here.stx_dev_major == there.stx_dev_major && here.stx_dev_minor == there.stx_dev_minor;
}

void kr_addr_in(struct kr_task *t, u64 ptr, u64 len, struct kr_addr *x) {
    char path[PATH_MOST + 1];
    if (!path_in(ptr, len, x, path))
        return;
    long fd = kr_open_path(t, AT_FDCWD, path, 0);
    if (fd < 0) {
        x->error = (int)fd;
        set_path(x, "/");
        return;
    }
    x->fd = (int)fd;
    kr_snprintf(path, sizeof path, "/proc/thread-self/fd/%d", x->fd);
    x->thread = !shows(path, x->fd);
    if (x->thread)
        kr_proc_self_fd(path, sizeof path, x->fd);
    set_path(x, path);
}

void kr_addr_drop(struct kr_addr *x) {
    if (x->fd >= 0)
        kr_sys1(__NR_close, x->fd);
    x->fd = -1;
}

/* err if the socket is of AF_UNIX; else the kernel's answer to an address of the wrong family. */
static long refused(long nr, const u64 a[6], long err) {
    s32 domain = 0;
    u32 size = sizeof domain;
    long r = kr_sys5(__NR_getsockopt, a[0], SOL_SOCKET_K, SO_DOMAIN_K, &domain, &size);
    return r == 0 && domain == FAMILY_UNIX ? err : kr_forward(nr, a);
}

long kr_addr_call(struct kr_task *t, long nr, const u64 a[6], const struct kr_addr *x) {
    char path[64];
    if (x->error)
        return refused(nr, a, x->error);
    return x->thread ? kr_call_from(t, kr_proc_self_fd(path, sizeof path, x->fd), nr, a) : kr_forward(nr, a);
}

long sys_connect(struct kr_task *t, const u64 a[6]) {
    struct kr_addr x;
    kr_addr_in(t, a[1], (u32)a[2], &x);
    long n = kr_addr_call(t, __NR_connect, (u64[6]){a[0], x.ptr, x.len}, &x);
    kr_addr_drop(&x);
    return n;
}

long sys_sendto(struct kr_task *t, const u64 a[6]) {
    struct kr_addr x;
    kr_addr_in(t, a[4], (u32)a[5], &x);
    long n = kr_addr_call(t, __NR_sendto, (u64[6]){a[0], a[1], a[2], a[3], x.ptr, x.len}, &x);
    kr_addr_drop(&x);
    return n;
}

long sys_bind(struct kr_task *t, const u64 a[6]) {
    char path[PATH_MOST + 1];
    struct kr_addr x;
    struct kr_parent p;
    int is_path = path_in(a[1], (u32)a[2], &x, path);
    const u64 b[6] = {a[0], x.ptr, x.len};
    if (is_path) {
        long r = kr_parent_open(t, AT_FDCWD, path, &p);
        if (r < 0)
            return refused(__NR_bind, b, r);
        kr_parent_close(&p);
    }
    return kr_forward(__NR_bind, b);
}
