/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of the kernel's device events, which do not hear KVM's: see uevent.h.
 */
#include "uevent.h"
#include "nested.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include <linux/fcntl.h>
#include <linux/filter.h>

#define SOL_SOCKET 1
#define SO_ATTACH_FILTER 26
#define SO_DETACH_FILTER 27
#define SO_PROTOCOL 38
#define SO_DOMAIN 39
#define SOCK_CLOEXEC 02000000

/* The text that a dropped message begins with, up to the NUL. Only this event has it: a misc device has one place. */
static const char dropped[] = "change@/devices/virtual/misc/kvm";
#define WORDS ((u32)(sizeof dropped / 4))
_Static_assert(sizeof dropped == 33, "whole words, which the program compares");

#define PREFIX (2 * WORDS + 4) /* instructions in front of the payload's */

/* The instructions in front: they drop KVM's events, and leave A as it is at the start of a program. */
static void put_prefix(struct sock_filter *f) {
    u32 n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0);
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, sizeof dropped, 0, 2 * WORDS + 1);
    for (u32 i = 0; i < WORDS; i++) {
        const u8 *c = (const u8 *)dropped + 4 * i;
        u32 word = (u32)c[0] << 24 | (u32)c[1] << 16 | (u32)c[2] << 8 | c[3];
        f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4 * i);
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, 0, (u8)(2 * (WORDS - i) - 1));
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, 0);
}

static long attach(int fd, struct sock_filter *f, u32 n) {
    struct kr_fprog p = {.len = (u16)n, .filter = (u64)f};
    return kr_sys5(__NR_setsockopt, fd, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof p);
}

/* Drops KVM's events and nothing else. 0 or -errno. */
static long attach_own(int fd) {
    struct sock_filter f[PREFIX + 1];
    put_prefix(f);
    f[PREFIX] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, ~0u);
    return attach(fd, f, PREFIX + 1);
}

/* The payload's program behind the own one. 0 or -errno. */
static long attach_both(int fd, const struct kr_fprog *p) {
    size_t size = (PREFIX + p->len) * sizeof(struct sock_filter);
    if (!p->len || p->len > BPF_MAXINSNS - PREFIX)
        return -EINVAL;
    struct sock_filter *f = kr_alloc(size);
    if (!f)
        return -ENOMEM;
    put_prefix(f);
    long r = kr_copy_in(f + PREFIX, p->filter, p->len * sizeof *f);
    if (r == 0)
        r = attach(fd, f, PREFIX + p->len);
    kr_free(f, size);
    return r;
}

static int option(int fd, int name) {
    s32 value = -1;
    u32 len = sizeof value;
    return kr_sys5(__NR_getsockopt, fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

static int hears_events(int fd) {
    return option(fd, SO_PROTOCOL) == KR_NETLINK_KOBJECT_UEVENT && option(fd, SO_DOMAIN) == KR_AF_NETLINK;
}

/* Makes the socket under a hidden number, and gives it an ordinary one when it has its filter. */
static long make_hidden(struct kr_task *t, const u64 a[6]) {
    kr_lock(&t->mm->lock);
    kr_fd_hide_begin(t->mm);
    int fd = kr_fd_hide_end(t->mm, (int)kr_sys3(__NR_socket, a[0], a[1], a[2]), KR_FD_FORK_DROPS, NULL);
    kr_unlock(&t->mm->lock);
    if (fd < 0)
        return fd;
    long r = attach_own(fd);
    if (r == 0)
        r = kr_sys3(__NR_fcntl, fd, a[1] & SOCK_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
    kr_fd_made(fd);
    return r;
}

long kr_uevent_socket(struct kr_task *t, const u64 a[6]) {
    if (kr_files_shared(t))
        return t->is_vfork ? -ENFILE : make_hidden(t, a);
    long fd = kr_forward(__NR_socket, a), r = fd < 0 ? fd : attach_own((int)fd);
    if (r < 0)
        kr_fd_shut(fd);
    return r < 0 ? r : fd;
}

long kr_uevent_filter(struct kr_task *t, const u64 a[6]) {
    struct kr_fprog p;
    int shared = kr_files_shared(t), fd = shared ? kr_slot_dup(t, a[0]) : (int)a[0];
    long r = fd;
    if (shared && fd < 0)
        return r;
    int events = hears_events(fd), attaches = (u32)a[2] == SO_ATTACH_FILTER;
    if (attaches && kr_fprog_in(&p, a[3]) < 0)
        r = -EFAULT;
    else if (events)
        r = attaches ? attach_both(fd, &p) : attach_own(fd);
    else
        r = kr_call_intr(__NR_setsockopt, (u64)fd, a[1], a[2], attaches ? (u64)&p : a[3], a[4], 0);
    if (shared)
        kr_slot_free_slow(t, fd);
    return r;
}
