/* SPDX-License-Identifier: Apache-2.0
 *
 * System V IPC: shmat and shmdt, because the VMA array must contain attached segments; semctl, because its
 * last argument is a union. All other calls of the family are forwarded by their rows.
 *
 * State: the list of attached segments of this address space, under mm->lock. The list lies in monitor
 * memory, which fork copies with the mm.
 */
#include "table.h"
#include "../lib/kr_linux.h"
#include "../machine/mm.h"

struct attached {
    struct attached *next;
    u64 addr, len;
};
static struct attached *list;

static void remember(struct kr_mm *mm, struct attached *s) {
    kr_lock(&mm->lock);
    s->next = list;
    list = s;
    kr_unlock(&mm->lock);
}

static struct attached *take(struct kr_mm *mm, u64 addr) {
    kr_lock(&mm->lock);
    struct attached **at = &list;
    while (*at && (*at)->addr != addr)
        at = &(*at)->next;
    struct attached *s = *at;
    if (s)
        *at = s->next;
    kr_unlock(&mm->lock);
    return s;
}

long sys_shmat(struct kr_task *t, const u64 a[6]) {
    u64 addr = a[1], len;
    u32 flags = (u32)a[2];
    if (addr & (KR_PAGE - 1)) {
        if (!(flags & SHM_RND))
            return -EINVAL;
        addr = KR_PAGE_DOWN(addr);
    }
    if (!addr && (flags & SHM_REMAP))
        return -EINVAL;
    struct attached *s = kr_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    u32 prot = PROT_READ | (flags & SHM_RDONLY ? 0 : PROT_WRITE) | (flags & SHM_EXEC ? PROT_EXEC : 0);
    long at = kr_mm_attach(t->mm, (s32)a[0], addr, flags & SHM_REMAP, prot, &len);
    if (at < 0) {
        kr_free(s, sizeof *s);
        return at;
    }
    s->addr = (u64)at;
    s->len = len;
    /* A segment that the payload has unmapped without shmdt(2). */
    struct attached *stale = take(t->mm, (u64)at);
    if (stale)
        kr_free(stale, sizeof *stale);
    remember(t->mm, s);
    return at;
}

long sys_shmdt(struct kr_task *t, const u64 a[6]) {
    struct attached *s = take(t->mm, a[0]);
    if (!s)
        return -EINVAL;
    long r = kr_mm_munmap(t->mm, s->addr, s->len); /* the kernel detaches when the mapping goes */
    kr_free(s, sizeof *s);
    return r;
}

long sys_semctl(struct kr_task *t, const u64 a[6]) {
    (void)t;
    u64 arg;
    switch ((u32)a[2] & ~(u32)IPC_64) {
    case IPC_SET:
    case IPC_STAT:
    case IPC_INFO:
    case GETALL: /* at most SEMMSL (32000) shorts */
    case SETALL:
    case SEM_STAT:
    case SEM_INFO:
    case SEM_STAT_ANY:
        arg = kr_guest_ptr(a[3], 1);
        break;
    default:
        arg = (u64)(s64)(s32)a[3]; /* SETVAL's number */
        break;
    }
    return kr_call_intr(__NR_semctl, a[0], a[1], a[2], arg, 0, 0);
}
