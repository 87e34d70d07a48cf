/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of landlock domains: see domain.h. State: task->domains, written by its own thread only; `n` is written last, because
 * another thread of the process may read it in an answer. Locks: mm->lock while the list of tasks is walked.
 */
#include "domain.h"
#include "../abi/boot.h"
#include "../machine/mm.h"
#include "board.h"
#include <linux/time.h>

#define TICK 10000000ULL /* ns */
/* The lower part of a `who`: ticks, 1394 years of them. A pid has 22 bits (PID_MAX_LIMIT in include/linux/threads.h). */
#define WHEN_BITS 42
#define WHEN ((1ULL << WHEN_BITS) - 1)

int kr_domain_has(const struct kr_domains *d, u64 asker) {
    u32 n = __atomic_load_n(&d->n, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i < n; i++)
        if (d->id[i] == asker)
            return 1;
    return !asker;
}

void kr_domain_enter(struct kr_task *t) {
    struct kr_domains *d = &t->domains;
    u64 id = 0;
    if (d->n == KR_COUNT(d->id))
        kr_die("landlock: the kernel has given a thread more than %u domains", d->n);
    if (kr_sys3(__NR_getrandom, &id, sizeof id, 0) != sizeof id || !id)
        id = kr_now() | 1;
    d->id[d->n] = id;
    __atomic_store_n(&d->n, d->n + 1, __ATOMIC_RELEASE);
}

u64 kr_domain_of(const struct kr_task *t) { return t->domains.n ? t->domains.id[t->domains.n - 1] : 0; }

int kr_domain_admits(struct kr_task *t, u64 asker) {
    u32 first = (u32)kr_sys0(__NR_getpid);
    int all = 1, found = 0;
    if (!asker)
        return 1;
    kr_lock(&t->mm->lock);
    for (struct kr_task *o = t->mm->tasks; o && !found; o = o->next) {
        if (o->proc != t->proc)
            continue;
        found = __atomic_load_n(&o->tid, __ATOMIC_ACQUIRE) == first;
        int has = kr_domain_has(&o->domains, asker);
        all = found ? has : all && has;
    }
    kr_unlock(&t->mm->lock);
    return all;
}

int kr_domain_load(struct kr_task *t) {
    size_t pos = 0;
    u32 len;
    const void *p = kr_boot_next(&kr_boot, KR_BOOT_DOMAINS, &pos, &len);
    if (!p)
        return 0;
    if (len % sizeof t->domains.id[0] || len > sizeof t->domains.id)
        return -EINVAL;
    memcpy(t->domains.id, p, len);
    t->domains.n = len / sizeof t->domains.id[0];
    return 0;
}

/* ---- Questions ---- */

u64 kr_domain_who(void) {
    u64 now[2] = {0, 0};
    kr_sys2(__NR_clock_gettime, CLOCK_BOOTTIME, now);
    return (u64)kr_sys0(__NR_getpid) << WHEN_BITS | ((now[0] * 1000000000ULL + now[1]) / TICK & WHEN);
}

int kr_domain_is(u64 who, u32 pid, u64 since) {
    return who >> WHEN_BITS == pid && (who & WHEN) >= since / TICK;
}

u64 kr_domain_tag(u64 request, u64 domain, u64 who) {
    return kr_board_tag(KR_TAG_QUESTION, request, kr_board_tag(KR_TAG_QUESTION, domain, who));
}
