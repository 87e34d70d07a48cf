/* SPDX-License-Identifier: Apache-2.0
 *
 * Burying the tasks of dead relatives: see bury.h. State: task->life, maker, lender, switched, leaving: written by the task
 * itself, maker and lender also under mm->lock; proc->related, proc->copied. Lock: mm->lock.
 */
#include "bury.h"
#include "robust.h"
#include "../lib/above.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../lib/kr_linux.h"
#include <linux/futex.h>
#include <linux/prctl.h>

/* ---- the record ---- */

long kr_life_make(struct kr_task *c, struct kr_task *maker, int waits) {
    if (!c->proc->related)
        return 0;
    long p = kr_sys6(__NR_mmap, 0, KR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (u64)-1, 0);
    if (p < 0)
        return -ENOMEM;
    c->life = (struct kr_life *)p;
    if (kr_sys3(__NR_madvise, p, KR_PAGE, MADV_DONTFORK) < 0)
        return -ENOMEM;
    c->life->lives = 1; /* c is on mm->tasks before the kernel makes it */
    c->maker = maker;
    c->lender = waits ? maker : NULL;
    return 0;
}

void kr_life_free(struct kr_task *t) {
    struct kr_life *l = t->life;
    t->life = NULL; /* first: nobody unmaps it twice */
    if (l)
        kr_sys2(__NR_munmap, l, KR_PAGE);
}

void kr_life_clone(struct kr_task *c, struct kr_clone_args *host) {
    struct kr_life *l = c->life;
    u64 taken = CLONE_PARENT_SETTID | CLONE_PIDFD;
    c->birth.set_tid = host->flags & CLONE_CHILD_SETTID ? host->child_tid : 0;
    c->birth.clear_tid = host->flags & CLONE_CHILD_CLEARTID ? host->child_tid : 0;
    /* clone(2) has one argument for the number and the pidfd. What the payload asks for stays the kernel's; such a task counts as
     * made from now on. */
    l->made = (host->flags & taken) != 0;
    if (!l->made) {
        host->flags |= CLONE_PARENT_SETTID;
        host->parent_tid = (u64)&l->made;
    }
    host->flags = (host->flags | CLONE_CHILD_CLEARTID) & ~(u64)CLONE_CHILD_SETTID;
    host->child_tid = (u64)&l->lives;
}

/* A word outside of the window is nobody's: the kernel writes nothing then, as to an address that is not mapped. */
static u64 guest_word(u64 addr) { return kr_span_ok(addr, 4) ? addr : 0; }

/* Gives the kernel the payload's word in place of `lives`. The list comes first: so one of the two marks is always there. */
static long hand_over(struct kr_task *t, u64 addr) {
    struct kr_life *l = t->life;
    l->entry = (u64)&l->head;
    l->head.next = (u64)&l->entry;
    l->head.offset = offsetof(struct kr_life, word) - offsetof(struct kr_life, entry);
    l->head.pending = 0;
    l->word = (u32)kr_sys0(__NR_gettid);
    kr_sys2(__NR_set_robust_list, &l->head, sizeof l->head);
    long r = kr_sys1(__NR_set_tid_address, guest_word(addr));
    t->clear_tid = addr;
    __atomic_store_n(&t->switched, 1, __ATOMIC_RELEASE);
    return r;
}

void kr_life_begin(struct kr_task *t) {
    u32 tid = t->tid;
    if (!t->life)
        return;
    if (t->birth.set_tid)
        kr_copy_out(t->birth.set_tid, &tid, sizeof tid);
    if (t->birth.clear_tid)
        hand_over(t, t->birth.clear_tid);
    __atomic_store_n(&t->life->made, tid, __ATOMIC_RELEASE);
    __atomic_store_n(&t->maker, NULL, __ATOMIC_RELEASE);
}

long kr_life_set_tid_address(struct kr_task *t, u64 addr) {
    if (t->life && !t->switched)
        return hand_over(t, addr);
    t->clear_tid = addr;
    /* The host thread's own: the kernel clears the word in guest memory and wakes its waiters when the thread ends. */
    return kr_sys1(__NR_set_tid_address, guest_word(addr));
}

long kr_life_tid_address(struct kr_task *t, u64 *addr) {
    u64 kernels = 0;
    long r = kr_sys2(__NR_prctl, PR_GET_TID_ADDRESS, &kernels);
    if (t->life)
        *addr = t->switched ? t->clear_tid : 0;
    else /* the kernel has an address from clone(2), and none where the payload has set one outside of the window */
        *addr = kernels ? kernels : t->clear_tid;
    return r;
}

/* A thread that executes a program gets the number of the first one, and the kernel's walk of a robust list compares
 * numbers. So the kernel gets `lives` again, and the other mark is not looked at. */
void kr_life_leave(struct kr_task *t, int leaves) {
    if (leaves)
        __atomic_store_n(&t->leaving, 1, __ATOMIC_RELEASE);
    if (t->switched)
        kr_sys1(__NR_set_tid_address, leaves ? (u64)&t->life->lives : guest_word(t->clear_tid));
    if (!leaves)
        __atomic_store_n(&t->leaving, 0, __ATOMIC_RELEASE);
}

void kr_life_end(struct kr_task *t) {
    if (!t->life)
        return;
    if (t->switched)
        kr_sys2(__NR_set_robust_list, 0, sizeof t->life->head);
    else
        kr_sys1(__NR_set_tid_address, 0);
}

void kr_life_released(struct kr_task *t) {
    for (struct kr_task *o = t->mm->relatives ? t->mm->tasks : NULL; o; o = o->next) {
        if (__atomic_load_n(&o->maker, __ATOMIC_RELAXED) == t)
            __atomic_store_n(&o->maker, NULL, __ATOMIC_RELEASE);
        if (o->lender == t)
            o->lender = NULL;
    }
}

void kr_life_after_fork(struct kr_task *t) {
    t->life = NULL;
    t->maker = t->lender = NULL;
    t->clear_tid = 0; /* the kernel has what clone(2) set */
    t->switched = t->leaving = t->waits_vcpu = 0;
    memset(t->errand, 0, sizeof t->errand);
    t->proc->related = t->proc->copied = 0;
}

/* ---- whether a task is gone ---- */

static int marked(const struct kr_task *o) {
    const struct kr_life *l = o->life;
    if (!l)
        return 0;
    if (!__atomic_load_n(&l->lives, __ATOMIC_ACQUIRE))
        return 1;
    if (__atomic_load_n(&o->switched, __ATOMIC_ACQUIRE) && !__atomic_load_n(&o->leaving, __ATOMIC_ACQUIRE) &&
        __atomic_load_n(&l->word, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED)
        return 1;
    return !__atomic_load_n(&o->maker, __ATOMIC_ACQUIRE) && !__atomic_load_n(&l->made, __ATOMIC_ACQUIRE);
}

static int gone(const struct kr_task *o, int short_of) {
    if (o->lender) /* releases it; else both are gone, and the lender is buried first */
        return 0;
    for (u32 i = 0; i < KR_COUNT(o->errand); i++)
        if (__atomic_load_n(kr_life_errand((struct kr_task *)o, i), __ATOMIC_ACQUIRE))
            return 0;
    if (marked(o))
        return 1;
    return short_of && !__atomic_load_n(&o->leaving, __ATOMIC_ACQUIRE) && kr_holder_gone(o->holder);
}

/* ---- burying ---- */

static int is_last(const struct kr_mm *mm, const struct kr_proc *p) {
    const struct kr_task *o = mm->tasks;
    while (o && o->proc != p)
        o = o->next;
    return !o;
}

/* What a process leaves whose last task is off the list. */
static void bury_process(struct kr_task *t, struct kr_proc *p) {
    if (!p->related)
        return;
    if (p->related == KR_RELATED_COUNTED)
        kr_robust_left(t);
    p->related = 0;
    if (p->copied && !(__atomic_load_n(&p->flags, __ATOMIC_RELAXED) & KR_PROCF_SHARED_FILES))
        kr_fd_copy_end();
    kr_free(p, sizeof *p);
}

/* A vCPU that was left inside the guest may have an instruction to complete: KVM does that here, and enters no guest. */
static void calm(const struct kr_task *t, struct kr_vcpu *v) {
    if (t->vcpu_limit && v->idx >= t->vcpu_limit)
        return; /* not in this process's descriptor table */
    v->run->immediate_exit = 1;
    kr_sys3(__NR_ioctl, v->fd, KVM_RUN, 0);
    v->run->immediate_exit = 0;
}

static void bury(struct kr_task *t, struct kr_task *o) {
    struct kr_proc *p = o->proc;
    void *stack = o->stack;
    size_t size = o->stack_size;
    if (o->vcpu && o->nr == ~0ULL)
        calm(t, o->vcpu);
    kr_task_release(o);
    for (u32 i = 0; i < KR_COUNT(o->errand_stack); i++)
        if (o->errand_stack[i])
            kr_sys2(__NR_munmap, o->errand_stack[i], KR_STACK_SIZE + KR_STACK_GUARD);
    if (stack)
        kr_sys2(__NR_munmap, stack, size);
    kr_free(o, sizeof *o);
    if (is_last(t->mm, p))
        bury_process(t, p);
}

void kr_bury(struct kr_task *t, int short_of) {
    struct kr_mm *mm = t->mm;
    for (struct kr_task **at = &mm->tasks; *at;) {
        struct kr_task *o = *at;
        if (o->proc != t->proc && gone(o, short_of)) {
            bury(t, o);
            at = &mm->tasks; /* those that it has made may be gone, too */
        } else {
            at = &o->next;
        }
    }
    u32 waiters = 0;
    for (struct kr_task *o = mm->tasks; o; o = o->next)
        waiters += o->waits_vcpu;
    __atomic_store_n(&mm->vm.waiters, waiters, __ATOMIC_RELAXED);
}
