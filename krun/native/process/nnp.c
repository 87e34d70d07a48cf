/* SPDX-License-Identifier: Apache-2.0
 * no_new_privs and PR_SET_DUMPABLE as the payload has them. State: task->nnp; proc->flags, of which the bits KR_PROCF_DUMPABLE
 * and KR_PROCF_RECORD_LOCKS are the same in all processes of an mm, and change under mm->lock. */
#include "nnp.h"
#include "process.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include <linux/capability.h>
#include <linux/prctl.h>

int kr_nnp_view(struct kr_task *t) { return __atomic_load_n(&t->nnp, __ATOMIC_RELAXED) != 0; }

void kr_nnp_set(struct kr_task *t) { __atomic_store_n(&t->nnp, 1, __ATOMIC_RELAXED); }

int kr_nnp_or_admin(struct kr_task *t) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct cap[2];
    if (kr_nnp_view(t))
        return 1;
    return kr_sys2(__NR_capget, &head, cap) == 0 && cap[0].effective >> CAP_SYS_ADMIN & 1;
}

void kr_undumpable(void) { kr_sys5(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0); }

int kr_ids_differ(void) {
    long uid = kr_sys0(__NR_geteuid), gid = kr_sys0(__NR_getegid);
    return uid != kr_sys0(__NR_getuid) || uid != kr_sys1(__NR_setfsuid, -1) || gid != kr_sys0(__NR_getgid) ||
           gid != kr_sys1(__NR_setfsgid, -1);
}

int kr_dumpable_view(struct kr_task *t) {
    struct kr_proc *p = t->proc;
    return !(__atomic_load_n(&p->flags, __ATOMIC_RELAXED) & KR_PROCF_DUMPABLE);
}

void kr_common_change(struct kr_task *t, u32 clear, u32 set) {
    kr_lock(&t->mm->lock);
    for (struct kr_task *o = t->mm->tasks; o; o = o->next) {
        __atomic_or_fetch(&o->proc->flags, set, __ATOMIC_RELAXED);
        __atomic_and_fetch(&o->proc->flags, ~clear, __ATOMIC_RELAXED);
    }
    kr_unlock(&t->mm->lock);
}

void kr_common_inherit(struct kr_task *c, const struct kr_task *t) {
    const u32 common = KR_PROCF_DUMPABLE | KR_PROCF_RECORD_LOCKS;
    u32 has = __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & common;
    if (c->proc != t->proc)
        c->proc->flags = (c->proc->flags & ~common) | has;
}
