/* SPDX-License-Identifier: Apache-2.0
 * connect, bind, sendto: the address is copied in. The object of an AF_UNIX path is found with judgement,
 * because /proc/PID/root of a process of the host would lead to the host's sockets. The kernel gets the path
 * of the object's descriptor in the container's /proc, if that leads to the object. Otherwise it gets the
 * path in the monitor's procfs, in a call by a thread whose working directory is that procfs (a signal does
 * not interrupt that call).
 *
 * bind(2) makes a name, and the kernel shows the text of the name to every peer. So the kernel gets a copy of
 * the payload's own text, and walks it again after the directory has been found with judgement. A thread of the
 * payload can change a link in between. Therefore a short-lived thread makes the call, in a landlock(7) domain
 * that allows a socket to be made below the judged directory only. Without landlock in the kernel the second
 * walk is free (docs/security.md).
 *
 * No state, no locks.
 */
#include "unixaddr.h"
#include "path.h"
#include "table.h"
#include "../process/process.h"
#include "../view/procfs.h"
#include <asm/socket.h>
#include <linux/fcntl.h>
#include <linux/landlock.h>
#include <linux/stat.h>

#define FAMILY_UNIX 1
#define HEAD 2        /* sun_family */
#define PATH_MOST 108 /* sun_path */

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
    kr_fd_shut(x->fd);
    x->fd = -1;
}

/* err if the socket is of AF_UNIX; else the kernel's answer to an address of the wrong family. */
static long refused(long nr, const u64 a[6], long err) {
    s32 domain = 0;
    u32 size = sizeof domain;
    long r = kr_sys5(__NR_getsockopt, a[0], SOL_SOCKET, SO_DOMAIN, &domain, &size);
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

struct making {
    const u64 *b; /* arguments of bind(2), whose path is a private copy */
    int dir;      /* the judged directory */
};

/* A landlock domain of the calling thread in which sockets are made below dir only. 0 or -errno. -EMFILE: no
 * free number. */
static long confine(int dir) {
    const u64 right = LANDLOCK_ACCESS_FS_MAKE_SOCK;
    struct landlock_path_beneath_attr beneath = {.allowed_access = right, .parent_fd = dir};
    long set = kr_sys3(__NR_landlock_create_ruleset, &right, sizeof right, 0);
    if (set < 0)
        return set;
    long r = kr_sys4(__NR_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    return r < 0 ? r : kr_sys2(__NR_landlock_restrict_self, set, 0);
}

/* Runs on a thread with a descriptor table of its own, which ends with the table and the domain. */
static long bind_confined(void *arg) {
    const struct making *m = arg;
    long r = confine(m->dir);
    for (int fd = 0; r == -EMFILE && fd < 3; fd++)
        if (fd != (int)m->b[0] && fd != m->dir) { /* a standard descriptor of the copy makes room */
            kr_sys1(__NR_close, fd);
            r = confine(m->dir);
        }
    if (r == -E2BIG)
        kr_log(
            "bind: the thread has as many landlock domains as the kernel allows; no room for the monitor's");
    if (r < 0 && r != -ENOSYS && r != -EOPNOTSUPP)
        return -EACCES;
    return kr_sys3(__NR_bind, m->b[0], m->b[1], m->b[2]);
}

long sys_bind(struct kr_task *t, const u64 a[6]) {
    char path[PATH_MOST + 1];
    struct kr_addr x;
    struct kr_parent p;
    int is_path = path_in(a[1], (u32)a[2], &x, path);
    const u64 b[6] = {a[0], x.ptr, x.len};
    if (!is_path)
        return kr_forward(__NR_bind, b);
    long r = kr_parent_open(t, AT_FDCWD, path, &p);
    if (r < 0)
        return refused(__NR_bind, b, r);
    if (p.hidden) { /* the kernel would walk the text once more */
        kr_parent_close(&p);
        return refused(__NR_bind, b, -ENOENT);
    }
    /* A name in the working directory: the kernel walks nothing, and a socket's name is not followed. */
    struct making m = {b, p.dir};
    r = p.dir == AT_FDCWD ? kr_forward(__NR_bind, b) : kr_alone(t, bind_confined, &m);
    kr_parent_close(&p);
    return r;
}
