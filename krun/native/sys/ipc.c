/* SPDX-License-Identifier: Apache-2.0
 *
 * System V IPC: shmat and shmdt, because the VMA array must contain attached segments; semctl, because its
 * last argument is a union. All other calls of the family are forwarded by their rows. No state, no locks.
 */
#include "table.h"
#include "../lib/kr_linux.h"
#include "../machine/mm.h"

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
    u32 prot = PROT_READ | (flags & SHM_RDONLY ? 0 : PROT_WRITE) | (flags & SHM_EXEC ? PROT_EXEC : 0);
    return kr_mm_attach(t->mm, (s32)a[0], addr, flags & SHM_REMAP, prot, &len);
}

long sys_shmdt(struct kr_task *t, const u64 a[6]) { return kr_mm_detach(t->mm, a[0]); }

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
