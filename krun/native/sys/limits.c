/* SPDX-License-Identifier: Apache-2.0
 *
 * getrlimit(2), setrlimit(2), prlimit(2). RLIMIT_NOFILE of the calling process: machine/fdtab.c keeps room
 * for the monitor's numbers above the payload's hard limit. RLIMIT_CORE of the calling process: it decides
 * whether the monitor catches signals that end in a core. All other limits, and those of other processes, are
 * forwarded. No state, no locks.
 */
#include "sys.h"
#include "../machine/fdtab.h"
#include "../process/signal.h"
#include "../machine/usercopy.h"
#include <linux/resource.h>

kr_sys_fn sys_getrlimit, sys_setrlimit, sys_prlimit64;

static long nofile(struct kr_task *t, u64 new_at, u64 old_at) {
    u64 fresh[2], old[2];
    if (new_at && kr_copy_in(fresh, new_at, sizeof fresh) < 0)
        return -EFAULT;
    long r = kr_fd_limit(t, new_at ? fresh : NULL, old);
    return r == 0 && old_at ? kr_copy_out(old_at, old, sizeof old) : r;
}

long sys_getrlimit(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[0] != RLIMIT_NOFILE)
        return kr_forward(__NR_getrlimit, a);
    return a[1] ? nofile(t, 0, a[1]) : -EFAULT;
}

/* Forwards the call. After a change of RLIMIT_CORE, the actions of core signals follow (process/signal.h). */
static long forward(struct kr_task *t, long nr, const u64 a[6], u32 resource) {
    long r = kr_forward(nr, a);
    if (r == 0 && resource == RLIMIT_CORE)
        kr_signal_cores(t);
    return r;
}

long sys_setrlimit(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[0] != RLIMIT_NOFILE)
        return forward(t, __NR_setrlimit, a, (u32)a[0]);
    return a[1] ? nofile(t, a[1], 0) : -EFAULT;
}

long sys_prlimit64(struct kr_task *t, const u64 a[6]) {
    s32 pid = (s32)a[0];
    if ((u32)a[1] != RLIMIT_NOFILE ||
        (pid && kr_own_thread((u32)pid) < 0)) /* a thread's limit is its process's */
        return forward(t, __NR_prlimit64, a, (u32)a[1]);
    return nofile(t, a[2], a[3]);
}
