/* SPDX-License-Identifier: Apache-2.0
 *
 * RLIMIT_NOFILE and the monitor's descriptors: where their numbers go, and what the payload sees of the limit.
 *
 * The monitor's numbers go above the soft limit, because the kernel gives the payload no number there. They
 * do not go far up, because each fork copies the descriptor table up to its highest open number. So they go
 * below the soft limit if it is above HIGHEST_BASE, or if the hard limit leaves no room above it. They never
 * go right at the limit: valgrind raises the limit by ten to have numbers out of its client's way.
 *
 * No state. fdtab_lock is held while the limit is changed for a moment, so that kr_fd_limit does not see it.
 */
#include "fdplace.h"

#define HIGHEST_BASE 4096u /* no base above this by choice */
#define ROOM_BELOW 64u     /* distance from the limit if the numbers must stay below it */

void kr_fd_get_limit(struct kr_rlimit_pair *r) {
    *r = (struct kr_rlimit_pair){1024, 1024};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, r);
}

void kr_fd_set_limit(u64 soft, u64 hard) {
    struct kr_rlimit_pair r = {soft, hard};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &r, 0);
}

u32 kr_fd_choose_base(const struct kr_rlimit_pair *r) {
    if (r->soft <= HIGHEST_BASE && r->hard >= r->soft + 2 * KR_FD_ROOM_ABOVE)
        return (u32)r->soft + KR_FD_ROOM_ABOVE;
    u32 top = r->soft < HIGHEST_BASE ? (u32)r->soft : HIGHEST_BASE;
    return top > 2 * ROOM_BELOW ? top - ROOM_BELOW : top / 2;
}

long kr_fd_beyond_limit(long nr, u64 fd, u64 a, u64 b, u64 number) {
    struct kr_rlimit_pair r;
    long n = kr_sys3(nr, fd, a, b);
    if (n != -EMFILE && n != -EBADF && n != -EINVAL)
        return n;
    kr_fd_get_limit(&r);
    if (number < r.soft || r.soft == r.hard)
        return n;
    kr_fd_set_limit(r.hard, r.hard);
    n = kr_sys3(nr, fd, a, b);
    kr_fd_set_limit(r.soft, r.hard);
    return n;
}

/* ---- What the payload sees ---- */

/* Tries to raise the hard limit, which needs CAP_SYS_RESOURCE in the first user namespace. 0: the process may;
 * -EPERM: it may not. */
static long may_raise(const struct kr_rlimit_pair *now) {
    struct kr_rlimit_pair more = {now->soft, now->hard + 1};
    return kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &more, 0);
}

static long change_limit(struct kr_proc *p, const struct kr_rlimit_pair *now, u64 hard, const u64 fresh[2]) {
    /* Below `least` the monitor's own numbers would be out of its reach. */
    u64 least = KR_FD_BEHIND + KR_FD_ROOM_ABOVE;
    long r = 0;
    if (fresh[0] > fresh[1])
        return -EINVAL;
    if (fresh[1] > hard && fresh[1] <= now->hard)
        r = may_raise(now);
    struct kr_rlimit_pair set = {fresh[0], KR_MAX(fresh[1], KR_MIN(now->hard, least))};
    if (r == 0)
        r = kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &set, 0);
    if (r == 0)
        p->nofile_hard = set.hard > fresh[1] ? fresh[1] + 1 : 0;
    return r;
}

long kr_fd_limit(struct kr_task *t, const u64 fresh[2], u64 old[2]) {
    struct kr_rlimit_pair now;
    kr_fdtab_hold(); /* kr_fd_beyond_limit() changes the limit for a moment */
    kr_fd_get_limit(&now);
    u64 hard = t->proc->nofile_hard ? KR_MIN(now.hard, t->proc->nofile_hard - 1) : now.hard;
    old[0] = KR_MIN(now.soft, hard);
    old[1] = hard;
    long r = fresh ? change_limit(t->proc, &now, hard, fresh) : 0;
    kr_fdtab_release();
    return r;
}
