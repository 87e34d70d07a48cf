/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's seccomp filters: the chains of filters, their verdict on a call, and the calls that install filters. The
 * programs themselves are checked and run by filter/evaluate.c.
 *
 * State: each task has a chain of filters in task->seccomp, the newest filter first. A filter never changes, except its
 * verdict cache, which changes by atomic or. A filter counts its users: tasks and newer filters.
 * Locks: mm->lock where a task's chain changes. A chain is evaluated without a lock: only the task itself can drop a filter,
 * because SECCOMP_FILTER_FLAG_TSYNC only puts newer filters in front of the filters that a task has.
 */
#include "seccomp.h"
#include "evaluate.h"
#include "jail.h"
#include "../process/board.h"
#include "../process/nnp.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../abi/boot.h"
#include <asm/signal.h>
#include <linux/audit.h>

#define MAX_PATH 32768u /* MAX_INSNS_PER_PATH */
#define PENALTY 4u      /* per older filter */
#define CACHED 512u     /* call numbers with a cached verdict */

struct kr_seccomp {
    struct kr_seccomp *prev;
    u32 n;
    u32 users;    /* tasks for which it is the newest filter, and filters in front of it; atomic */
    u32 path;     /* instructions of the whole chain, with penalties */
    u32 depth;    /* filters in the chain */
    u32 log;      /* SECCOMP_FILTER_FLAG_LOG */
    u32 listener; /* an agent answers SECCOMP_RET_USER_NOTIF */
    /* For the chain from this filter on: calls that were judged without their arguments, and which of them
     * are allowed. */
    u64 known[CACHED / 64], allowed[CACHED / 64];
    struct sock_filter insns[];
};

/* ---- Chain ---- */

static int allowed_by_number(struct kr_seccomp *head, u32 nr) {
    u64 bit = 1ULL << (nr % 64);
    if (!(__atomic_load_n(&head->known[nr / 64], __ATOMIC_ACQUIRE) & bit)) {
        int all = 1;
        for (struct kr_seccomp *s = head; s && all; s = s->prev)
            all = kr_bpf_allows(s->insns, s->n, nr);
        if (all)
            __atomic_fetch_or(&head->allowed[nr / 64], bit, __ATOMIC_RELAXED);
        __atomic_fetch_or(&head->known[nr / 64], bit, __ATOMIC_RELEASE);
    }
    return (__atomic_load_n(&head->allowed[nr / 64], __ATOMIC_RELAXED) & bit) != 0;
}

/* Writes to the monitor's log what the kernel would write to its audit log: verdicts that kill or say LOG,
 * and verdicts of a filter with the LOG flag. */
static void log_verdict(struct kr_task *t, u32 verdict, int asked) {
    u32 action = verdict & SECCOMP_RET_ACTION_FULL;
    if (action == SECCOMP_RET_KILL_PROCESS || action == SECCOMP_RET_KILL_THREAD ||
        action == SECCOMP_RET_LOG || (asked && action != SECCOMP_RET_ALLOW))
        kr_log("seccomp: thread %u, call %u: action 0x%08x", t->tid, (u32)t->nr, verdict);
}

__noreturn static void strict_kill(struct kr_task *t) {
    kr_log("seccomp: thread %u, call %u: not of the strict mode", t->tid, (u32)t->nr);
    if (__atomic_load_n(&t->proc->refs, __ATOMIC_RELAXED) > 1)
        kr_task_exit(t, SIGKILL); /* kills only the thread (__secure_computing_strict() in the kernel) */
    kr_die_signal(t, SIGKILL);    /* not SIGSYS */
}

u32 kr_seccomp_check(struct kr_task *t) {
    u32 mode = __atomic_load_n(&t->seccomp_mode, __ATOMIC_ACQUIRE), nr = (u32)t->nr;
    struct kr_seccomp *head = __atomic_load_n(&t->seccomp, __ATOMIC_ACQUIRE);
    if (mode == SECCOMP_MODE_STRICT) {
        if (nr == __NR_read || nr == __NR_write || nr == __NR_exit || nr == __NR_rt_sigreturn)
            return SECCOMP_RET_ALLOW;
        strict_kill(t);
    }
    if (!head || (nr < CACHED && allowed_by_number(head, nr)))
        return SECCOMP_RET_ALLOW;
    struct seccomp_data data = {
        .nr = (int)nr, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = kr_regs(t)->rip};
    memcpy(data.args, t->args, sizeof data.args);
    u32 verdict = SECCOMP_RET_ALLOW;
    int asked = 0, listened = 0;
    for (struct kr_seccomp *s = head; s; s = s->prev) {
        u32 r = kr_bpf_run(s->insns, s->n, &data);
        /* Signed: KILL_PROCESS is the smallest. Of equal actions the data of the newest filter counts. */
        if ((s32)(r & SECCOMP_RET_ACTION_FULL) < (s32)(verdict & SECCOMP_RET_ACTION_FULL)) {
            verdict = r;
            asked = (int)s->log;
            listened = (int)s->listener;
        }
    }
    log_verdict(t, verdict, asked);
    if ((verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF && !listened)
        return SECCOMP_RET_ERRNO | ENOSYS; /* seccomp_do_user_notification() in the kernel */
    return verdict;
}

int kr_seccomp_allows(struct kr_task *t, u32 nr) {
    u32 mode = __atomic_load_n(&t->seccomp_mode, __ATOMIC_ACQUIRE);
    struct kr_seccomp *head = __atomic_load_n(&t->seccomp, __ATOMIC_ACQUIRE);
    return mode != SECCOMP_MODE_STRICT && nr < CACHED && (!head || allowed_by_number(head, nr));
}

static struct kr_seccomp *new_filter(u32 n) {
    return kr_alloc(sizeof(struct kr_seccomp) + n * sizeof(struct sock_filter));
}

static void free_filter(struct kr_seccomp *s) { kr_free(s, sizeof *s + s->n * sizeof(struct sock_filter)); }

static struct kr_seccomp *get(struct kr_seccomp *s) {
    if (s)
        __atomic_add_fetch(&s->users, 1, __ATOMIC_RELAXED);
    return s;
}

static void put(struct kr_seccomp *s) {
    while (s && __atomic_sub_fetch(&s->users, 1, __ATOMIC_ACQ_REL) == 0) {
        struct kr_seccomp *prev = s->prev;
        free_filter(s);
        s = prev;
    }
}

void kr_seccomp_inherit(struct kr_task *child, struct kr_task *t) {
    child->seccomp = get(t->seccomp);
    child->seccomp_mode = t->seccomp_mode;
    child->nnp = t->nnp;
}

void kr_seccomp_drop(struct kr_task *t) {
    struct kr_seccomp *s = t->seccomp;
    __atomic_store_n(&t->seccomp, NULL,
                     __ATOMIC_RELEASE); /* first, so that no death in between drops s twice */
    t->seccomp_mode = SECCOMP_MODE_DISABLED;
    put(s);
}

static int is_ancestor(const struct kr_seccomp *old, const struct kr_seccomp *s) {
    while (s && s != old)
        s = s->prev;
    return s == old; /* NULL is an ancestor of every chain */
}

/* The next task of the process of t, without t itself. Lock: mm->lock. */
static struct kr_task *sibling(struct kr_task *t, struct kr_task *after) {
    struct kr_task *o = after ? after->next : t->mm->tasks;
    while (o && (o == t || o->proc != t->proc))
        o = o->next;
    return o;
}

/* Puts s in front of the filters of t. With TSYNC all threads of the process get this chain. Lock: mm->lock.
 * As seccomp_attach_filter() in the kernel. */
static long attach(struct kr_task *t, struct kr_seccomp *s, u32 flags) {
    struct kr_seccomp *prev = t->seccomp;
    if (t->seccomp_mode == SECCOMP_MODE_STRICT)
        return -EINVAL; /* a task cannot leave a mode */
    s->path = s->n + (prev ? prev->path + PENALTY : 0);
    s->depth = 1 + (prev ? prev->depth : 0);
    if (s->path > MAX_PATH)
        return -ENOMEM;
    if (flags & SECCOMP_FILTER_FLAG_TSYNC)
        for (struct kr_task *o = NULL; (o = sibling(t, o));)
            if (o->seccomp_mode == SECCOMP_MODE_STRICT || !is_ancestor(o->seccomp, prev))
                return flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH ? -ESRCH : (long)o->tid;
    s->prev = prev; /* s takes the reference of t */
    s->users = 1;
    __atomic_store_n(&t->seccomp, s, __ATOMIC_RELEASE);
    __atomic_store_n(&t->seccomp_mode, SECCOMP_MODE_FILTER, __ATOMIC_RELEASE);
    if (flags & SECCOMP_FILTER_FLAG_TSYNC)
        for (struct kr_task *o = NULL; (o = sibling(t, o));) {
            struct kr_seccomp *was = o->seccomp;
            __atomic_store_n(&o->seccomp, get(s), __ATOMIC_RELEASE);
            __atomic_store_n(&o->seccomp_mode, SECCOMP_MODE_FILTER, __ATOMIC_RELEASE);
            kr_local_changed(o);
            put(was);   /* is in the chain of s, which keeps it */
            if (t->nnp) /* else a thread without no_new_privs could gain privileges with the filter in force */
                __atomic_store_n(&o->nnp, 1, __ATOMIC_RELAXED);
        }
    return 0;
}

long kr_seccomp_add(struct kr_task *t, const void *insns, u32 n, u32 flags) {
    if (n == 0 || n > BPF_MAXINSNS)
        return -EINVAL;
    struct kr_seccomp *s = new_filter(n);
    if (!s)
        return -ENOMEM;
    memcpy(s->insns, insns, n * sizeof *s->insns);
    s->n = n;
    s->log = (flags & SECCOMP_FILTER_FLAG_LOG) != 0;
    s->listener = (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
    long r = kr_bpf_check(s->insns, n);
    if (r == 0) {
        /* Another thread may be in an execve (process/exec.c). */
        int others = flags & SECCOMP_FILTER_FLAG_TSYNC;
        if (others)
            kr_lock(&t->proc->exec_lock);
        kr_lock(&t->mm->lock);
        r = attach(t, s, flags);
        kr_unlock(&t->mm->lock);
        if (others)
            kr_unlock(&t->proc->exec_lock);
        if (t->mm->sockets) /* what the filters before allowed inside the guest */
            kr_sockets_forget(t);
    }
    if (r)
        free_filter(s);
    return r;
}

long kr_seccomp_strict(struct kr_task *t) {
    kr_lock(&t->mm->lock);
    long r = t->seccomp_mode == SECCOMP_MODE_FILTER ? -EINVAL : 0;
    if (r == 0)
        t->seccomp_mode = SECCOMP_MODE_STRICT;
    kr_unlock(&t->mm->lock);
    if (t->mm->sockets)
        kr_sockets_forget(t);
    return r;
}

int kr_seccomp_mode(struct kr_task *t) { return (int)__atomic_load_n(&t->seccomp_mode, __ATOMIC_ACQUIRE); }

u32 kr_seccomp_count(struct kr_task *t) { return t->seccomp ? t->seccomp->depth : 0; }

void kr_seccomp_save(struct kr_task *t, void (*emit)(void *ctx, u16 tag, const void *data, u32 len),
                     void *ctx) {
    struct kr_seccomp *s = __atomic_load_n(&t->seccomp, __ATOMIC_ACQUIRE);
    /* The chain is newest first, the records are oldest first. The depth is bounded by MAX_PATH; a recursion
     * of that depth would not fit on the stack. */
    for (u32 depth = 1; s && depth <= s->depth; depth++)
        for (struct kr_seccomp *f = s; f; f = f->prev)
            if (f->depth == depth) {
                emit(ctx, KR_BOOT_SECCOMP, f->insns, f->n * (u32)sizeof *f->insns);
                break;
            }
}

/* ---- The calls ---- */

static long add_from_payload(struct kr_task *t, u32 flags, u64 ptr) {
    struct {
        u16 len;
        u16 pad[3];
        u64 filter;
    } prog;
    /* A supervisor cannot serve the calls of a VM. Therefore SECCOMP_FILTER_FLAG_NEW_LISTENER is unknown
     * here, and WAIT_KILLABLE_RECV, which needs it, too. SPEC_ALLOW concerns the speculation of the host's
     * thread and changes nothing. */
    const u32 known = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG | SECCOMP_FILTER_FLAG_SPEC_ALLOW |
                      SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
    if (flags & ~known)
        return -EINVAL;
    if (kr_copy_in(&prog, ptr, sizeof prog) < 0)
        return -EFAULT;
    if (prog.len == 0 || prog.len > BPF_MAXINSNS)
        return -EINVAL;
    if (!kr_nnp_or_admin(t))
        return -EACCES;
    size_t size = prog.len * sizeof(struct sock_filter);
    void *copy = kr_alloc(size);
    if (!copy)
        return -ENOMEM;
    long r = kr_copy_in(copy, prog.filter, size);
    if (r == 0)
        r = kr_seccomp_add(t, copy, prog.len, flags);
    if (r >= 0)
        kr_board_update(t);
    kr_free(copy, size);
    return r;
}

long kr_seccomp_call(struct kr_task *t, u32 op, u32 flags, u64 ptr) {
    switch (op) {
    case SECCOMP_SET_MODE_STRICT:
        return flags || ptr ? -EINVAL : kr_seccomp_strict(t);
    case SECCOMP_SET_MODE_FILTER:
        return add_from_payload(t, flags, ptr);
    case SECCOMP_GET_ACTION_AVAIL: {
        u32 action;
        if (flags)
            return -EINVAL;
        if (kr_copy_in(&action, ptr, sizeof action) < 0)
            return -EFAULT;
        switch (action) {
        case SECCOMP_RET_KILL_PROCESS:
        case SECCOMP_RET_KILL_THREAD:
        case SECCOMP_RET_TRAP:
        case SECCOMP_RET_ERRNO:
        case SECCOMP_RET_TRACE:
        case SECCOMP_RET_LOG:
        case SECCOMP_RET_ALLOW:
            return 0;
        }
        return -EOPNOTSUPP;
    }
    case SECCOMP_GET_NOTIF_SIZES: {
        struct seccomp_notif_sizes sizes = {sizeof(struct seccomp_notif), sizeof(struct seccomp_notif_resp),
                                            sizeof(struct seccomp_data)};
        return flags ? -EINVAL : kr_copy_out(ptr, &sizes, sizeof sizes);
    }
    }
    return -EINVAL;
}

long kr_seccomp_prctl(struct kr_task *t, u64 mode, u64 ptr) {
    if (mode == SECCOMP_MODE_STRICT)
        return kr_seccomp_call(t, SECCOMP_SET_MODE_STRICT, 0, 0);
    if (mode == SECCOMP_MODE_FILTER)
        return kr_seccomp_call(t, SECCOMP_SET_MODE_FILTER, 0, ptr);
    return -EINVAL;
}
