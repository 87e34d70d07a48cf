/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that change user or group ids. The kernel then sets the dumpable attribute of the monitor's memory to
 * fs.suid_dumpable (commit_creds() in kernel/cred.c). With 1 other processes of the new user could trace the
 * monitor, and the kernel could write a core of it where the payload reads. So the monitor takes the attribute
 * away again. The payload's own attribute is kr_dumpable_view (process/nnp.c).
 *
 * No state, no locks.
 */
#include "sys.h"
#include "../process/nnp.h"

static long ids(long nr, const u64 a[6]) {
    long r = kr_forward(nr, a);
    kr_undumpable();
    return r;
}

kr_sys_fn sys_setuid, sys_setgid, sys_setreuid, sys_setregid, sys_setresuid, sys_setresgid, sys_setfsuid,
    sys_setfsgid;

long sys_setuid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setuid, a);
}
long sys_setgid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setgid, a);
}
long sys_setreuid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setreuid, a);
}
long sys_setregid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setregid, a);
}
long sys_setresuid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setresuid, a);
}
long sys_setresgid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setresgid, a);
}
long sys_setfsuid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setfsuid, a);
}
long sys_setfsgid(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return ids(__NR_setfsgid, a);
}
