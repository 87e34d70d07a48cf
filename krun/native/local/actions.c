/* SPDX-License-Identifier: Apache-2.0
 *
 * rt_sigaction(2) inside the guest: see local.h and guest/engine_action.inc.
 *
 * Only a process of one thread has this way. So no other thread changes its actions while the guest's code answers from
 * the fact page, and no other thread can ask for an action before the record of its change is taken: the only thread's
 * next exit takes it, before anything looks at the actions. A second thread is made by an exit, after which the way is
 * decided anew.
 *
 * State: the actions in the fact page, a copy of kr_proc.action. Lock: sig_lock. The records in the call page are the
 * payload's; each is copied once, and counts as a call of rt_sigaction with the same contents.
 */
#include "local.h"
#include "../filter/seccomp.h"
#include "../process/signal.h"
#include <linux/signal.h>

_Static_assert(sizeof(struct kr_sigaction) == sizeof(struct kr_action_k), "guest/callpage.h");
_Static_assert(KR_LOCAL_LAST_ACTION + sizeof(struct kr_action_k) == KR_WINDOW_END, "guest/callpage.h");
_Static_assert(KR_LOCAL_ACTION_SIGNALS == KR_SIGACTION_NOTED, "guest/callpage.h");
_Static_assert(KR_LOCAL_ACTION_FLAGS == KR_SA_KEPT && KR_LOCAL_ACTION_HOST == KR_SA_HOST, "guest/callpage.h");
_Static_assert(KR_WAY_ACTION == 2, "engine.S");

static void copy(struct kr_action_k *to, const struct kr_sigaction *from) {
    *to = (struct kr_action_k){
        .handler = from->handler, .flags = from->flags, .restorer = from->restorer, .mask = from->mask};
}

u32 kr_local_actions(struct kr_task *t, struct kr_fact_page *f) {
    struct kr_proc *p = t->proc;
    if (__atomic_load_n(&p->refs, __ATOMIC_ACQUIRE) != 1 || !kr_seccomp_allows(t, __NR_rt_sigaction))
        return 0;
    kr_lock(&p->sig_lock);
    for (int sig = 1; sig <= KR_NSIG; sig++)
        copy(&f->action[sig], &p->action[sig]);
    kr_unlock(&p->sig_lock);
    f->way[__NR_rt_sigaction] = KR_WAY_ACTION;
    return 1u << KR_WAY_ACTION;
}

void kr_local_action(struct kr_task *t, int sig) {
    if (t->local.possible && t->vcpu)
        copy(&kr_fact_page(&t->mm->vm, t->vcpu->idx)->action[sig], &t->proc->action[sig]);
}

void kr_local_take_actions(struct kr_task *t, volatile struct kr_call_page *c) {
    u64 set = c->set;
    if (!set)
        return;
    c->set = 0;
    for (int sig = 1; sig <= KR_NSIG; sig++)
        if (set & KR_SIGBIT(sig)) {
            volatile const struct kr_action_k *to = &c->to[sig];
            struct kr_sigaction a = {
                .handler = to->handler, .flags = to->flags, .restorer = to->restorer, .mask = to->mask};
            kr_sigaction_note(t, sig, &a);
        }
}
