/* SPDX-License-Identifier: Apache-2.0
 * local/actions.c and kr_sigaction_note of process/signal.c: when rt_sigaction may be completed inside the guest, and what
 * a record of the payload's can do, whatever is in it. Sources: actions.c signal.c */
#include "harness.h"
#include "filter/seccomp.h"
#include "local/local.h"
#include "process/hostsig.h"
#include "process/resume.h"
#include "process/sigframe.h"
#include "process/signal.h"
#include <linux/signal.h>

/* ---- the parts that this test does without ---- */

static int allowed = 1;
int kr_seccomp_allows(struct kr_task *t, u32 nr) { return (void)t, nr == __NR_rt_sigaction && allowed; }
void kr_host_handler(int sig, siginfo_t *si, void *context) { (void)sig, (void)si, (void)context; }
void kr_host_restorer(void) {}
void kr_ask_signal(struct kr_task *t, u64 flags) { (void)t, (void)flags; }
long kr_sigframe_push(struct kr_task *t, const siginfo_t *si, const struct kr_sigaction *act,
                      kr_sigset mask) {
    return (void)t, (void)si, (void)act, (void)mask, -1;
}
long kr_sigframe_pop(struct kr_task *t, kr_sigset *mask) { return (void)t, (void)mask, -1; }

static struct kr_task *t;
static struct kr_fact_page *fact;
static struct kr_call_page *call;

static int equal(const struct kr_action_k *a, const struct kr_sigaction *b) {
    return !memcmp(a, b, sizeof *a);
}

static void page_is_true(void) {
    for (int sig = 1; sig <= KR_NSIG; sig++)
        CHECK(equal(&fact->action[sig], &t->proc->action[sig]));
}

static u64 some_flags(void) {
    static const u64 bits[] = {SA_RESTART,  SA_NOCLDSTOP, SA_NOCLDWAIT, SA_NODEFER,
                               SA_RESTORER, 0x400,        0x2000,       1ULL << 40};
    u64 flags = 0;
    for (int i = 0; i < 2; i++)
        if (kr_test_below(2))
            flags |= bits[kr_test_below(KR_COUNT(bits))];
    return flags;
}

static struct kr_sigaction some_action(void) {
    return (struct kr_sigaction){.handler = kr_test_below(4) ? 0 : 1 + kr_test_below(2) * 0x1000,
                                 .flags = some_flags(),
                                 .restorer = kr_test_random(),
                                 .mask = kr_test_random() << 11 ^ kr_test_random()};
}

static void arming(void) {
    CHECK_EQ(kr_local_actions(t, fact), 1u << KR_WAY_ACTION);
    CHECK_EQ(fact->way[__NR_rt_sigaction], KR_WAY_ACTION);
    page_is_true();
    memset(fact, 0, sizeof *fact);
    t->proc->refs = 2; /* another thread could change an action, or ask for it */
    CHECK_EQ(kr_local_actions(t, fact), 0);
    t->proc->refs = 1;
    allowed = 0;
    CHECK_EQ(kr_local_actions(t, fact), 0);
    allowed = 1;
    CHECK_EQ(fact->way[__NR_rt_sigaction], 0);
    CHECK_EQ(kr_local_actions(t, fact), 1u << KR_WAY_ACTION);
}

/* What a record does is what rt_sigaction does with the same action, or nothing. */
static void records(void) {
    static const u64 unknown = 0x400 | 0x2000 | 1ULL << 40;
    const kr_sigset never = ~KR_SIGACTION_NOTED, kill_stop = KR_SIGBIT(SIGKILL) | KR_SIGBIT(SIGSTOP);
    u32 taken = 0, dropped = 0;
    CHECK_EQ(never,
             kill_stop | KR_SIGBIT(SIGCHLD) | KR_SIGBIT(SIGCONT) | KR_SIGBIT(SIGURG) | KR_SIGBIT(SIGWINCH));
    for (u32 round = 0; round < 2000; round++) {
        struct kr_sigaction before[KR_NSIG + 1];
        for (int sig = 1; sig <= KR_NSIG; sig++) {
            t->proc->action[sig] = some_action();
            t->proc->action[sig].flags &= KR_SA_KEPT;
            t->proc->action[sig].mask &= ~kill_stop;
            struct kr_sigaction a = some_action();
            memcpy(&call->to[sig], &a, sizeof a);
        }
        memcpy(before, t->proc->action, sizeof before);
        u64 set = call->set = kr_test_random() << 11 ^ kr_test_random();
        kr_local_actions(t, fact);
        kr_local_take_actions(t, call);
        CHECK_EQ(call->set, 0);
        page_is_true();
        for (int sig = 1; sig <= KR_NSIG; sig++) {
            const struct kr_sigaction *was = &before[sig], *is = &t->proc->action[sig];
            const struct kr_action_k *to = &call->to[sig];
            if (!memcmp(was, is, sizeof *is)) {
                dropped++;
                continue;
            }
            taken++;
            CHECK(set & KR_SIGBIT(sig) & ~never);
            CHECK(was->handler == 0 && is->handler == 0 && to->handler == 0);
            CHECK_EQ((was->flags ^ is->flags) & KR_SA_HOST,
                     0); /* the host's disposition is the right one still */
            CHECK_EQ(is->flags & unknown, 0);
            CHECK_EQ(is->mask & kill_stop, 0);
            if (sig == SIGSEGV || sig == SIGBUS) /* the host's are this test's own */
                continue;
            struct kr_sigaction a, noted = *is;
            memcpy(&a, to, sizeof a);
            t->proc->action[sig] = *was;
            CHECK_EQ(kr_sigaction_set(t, sig, &a, NULL), 0);
            CHECK(!memcmp(&noted, &t->proc->action[sig], sizeof noted));
        }
        page_is_true();
    }
    CHECK(taken > 1000 && dropped > 1000);
}

static void exits(void) { /* what an exit changes the page has, too; and a task without a page does no harm */
    struct kr_sigaction a = {.handler = (u64)SIG_IGN, .flags = SA_RESTART}, d = {0};
    kr_local_actions(t, fact);
    CHECK_EQ(kr_sigaction_set(t, SIGUSR1, &a, NULL), 0);
    CHECK_EQ(fact->action[SIGUSR1].handler, SIG_IGN);
    CHECK_EQ(kr_sigaction_note(t, SIGUSR1, &d), 0); /* never from SIG_IGN */
    struct kr_vcpu *v = t->vcpu;
    t->vcpu = NULL;
    CHECK_EQ(kr_sigaction_set(t, SIGUSR1, &d, NULL), 0);
    t->vcpu = v;
    t->local.possible = 0;
    CHECK_EQ(kr_sigaction_set(t, SIGUSR1, &d, NULL), 0);
    t->local.possible = 1;
    CHECK_EQ(fact->action[SIGUSR1].handler, SIG_IGN);
    static const int bad[] = {0, -1, KR_NSIG + 1, SIGKILL, SIGSTOP, SIGCHLD};
    for (u32 i = 0; i < KR_COUNT(bad); i++)
        CHECK_EQ(kr_sigaction_note(t, bad[i], &d), 0);
}

void test_main(void) {
    t = kr_test_task();
    t->vcpu = calloc(1, sizeof *t->vcpu);
    t->mm->vm.sys = calloc(1, KR_VCPU_AREA(1));
    t->local.possible = 1;
    t->local.ways = 1u << KR_WAY_ACTION;
    fact = kr_fact_page(&t->mm->vm, 0);
    call = (struct kr_call_page *)kr_call_page(&t->mm->vm, 0);
    arming();
    records();
    exits();
    free(t->mm->vm.sys);
    free(t->vcpu);
    t->vcpu = NULL;
}
