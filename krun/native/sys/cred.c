/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that change user or group ids. The kernel then sets the dumpable attribute of the monitor's memory to
 * fs.suid_dumpable (commit_creds() in kernel/cred.c). With 1 other processes of the new user could trace the
 * monitor, and the kernel could write a core of it where the payload reads. So the monitor takes the attribute
 * away again. The payload's own attribute is kr_dumpable_view (process/nnp.c).
 *
 * State: a bit of proc->flags (KR_PROCF_IDS_CHANGED), under mm->lock.
 */
#include "sys.h"
#include "../process/nnp.h"
#include "../process/process.h"

/* The ids of the calling thread whose change ends the dumpable attribute. */
struct ids {
    long euid, egid, fsuid, fsgid;
};

static struct ids ids_now(void) {
    return (struct ids){kr_sys0(__NR_geteuid), kr_sys0(__NR_getegid), kr_sys1(__NR_setfsuid, -1),
                        kr_sys1(__NR_setfsgid, -1)};
}

/* Ids that are changed and changed back do not make the process dumpable again, so a change is noted. */
static long ids(struct kr_task *t, long nr, const u64 a[6]) {
    struct ids before = ids_now();
    long r = kr_forward(nr, a);
    struct ids after = ids_now();
    kr_undumpable();
    if (memcmp(&before, &after, sizeof before) != 0)
        kr_common_change(t, 0, KR_PROCF_IDS_CHANGED);
    return r;
}

kr_sys_fn sys_setuid, sys_setgid, sys_setreuid, sys_setregid, sys_setresuid, sys_setresgid, sys_setfsuid,
    sys_setfsgid;

long sys_setuid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setuid, a); }
long sys_setgid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setgid, a); }
long sys_setreuid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setreuid, a); }
long sys_setregid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setregid, a); }
long sys_setresuid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setresuid, a); }
long sys_setresgid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setresgid, a); }
long sys_setfsuid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setfsuid, a); }
long sys_setfsgid(struct kr_task *t, const u64 a[6]) { return ids(t, __NR_setfsgid, a); }
