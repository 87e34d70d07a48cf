/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that the guest's code may answer, and who may be answered: see local.h.
 *
 * State: the fact page of the thread's vCPU. Its `on` is clear while this file writes the rest.
 */
#include "local.h"
#include "../filter/seccomp.h"
#include "../process/ns.h"

/* The calls that are facts, and their place in the page. The numbers come from the kernel, not from arguments of the
 * calls that change them. Not here, because others can change them at any moment: getppid, getpgrp, getsid. */
static const struct {
    u16 nr;
    u8 is_id; /* a user or group id, as the thread's user namespace maps it */
} facts[] = {
    {__NR_getpid, 0},  {__NR_gettid, 0}, {__NR_getuid, 1},
    {__NR_geteuid, 1}, {__NR_getgid, 1}, {__NR_getegid, 1},
};
_Static_assert(KR_COUNT(facts) <= KR_LOCAL_FACTS, "guest/callpage.h");

/* The numbers of ids change when a parent writes the maps of a user namespace (user_namespaces(7)). The container's own
 * namespace has its maps before the first program; in another one no id is a fact. */
static int may_answer(struct kr_task *t, u32 i) {
    return !(facts[i].is_id && (__atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_USERNS)) &&
           kr_seccomp_allows(t, facts[i].nr);
}

u32 kr_local_facts(struct kr_task *t, struct kr_fact_page *f) {
    u32 ways = 0;
    memset(f->way, 0, sizeof f->way);
    for (u32 i = 0; i < KR_COUNT(facts); i++) {
        if (!may_answer(t, i))
            continue;
        f->fact[i] = (u64)kr_sys0(facts[i].nr);
        f->way[facts[i].nr] = (u8)(KR_WAY_FACT | i << KR_WAY_SHIFT);
        ways |= 1u << KR_WAY_FACT;
    }
    return ways;
}

void kr_local_changed(struct kr_task *t) {
    __atomic_add_fetch(&t->local.generation, 1, __ATOMIC_SEQ_CST);
    /* t may give its vCPU away at this moment. Then it decides anew when it has one again. */
    struct kr_vcpu *v = __atomic_load_n(&t->vcpu, __ATOMIC_RELAXED);
    if (t->local.possible && v)
        __atomic_store_n(&kr_fact_page(&t->mm->vm, v->idx)->on, 0, __ATOMIC_SEQ_CST);
}
