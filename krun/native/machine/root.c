/* SPDX-License-Identifier: Apache-2.0
 *
 * A root table for each vCPU: see root.h. State: vm->roots, vm->nroots, and the tables in the pool, under mm->lock.
 */
#include "root.h"
#include "../guest/patched.h"

#define ENTRIES 512
#define STEP 32u /* roots for which room is made at a time */
#define LINK (KR_PTE_P | KR_PTE_W | KR_PTE_U | KR_PTE_A)
#define INDEX(gva, shift) ((u64)(gva) >> (shift) & (ENTRIES - 1))

_Static_assert(INDEX(KR_OWN_BASE, 39) != INDEX(KR_SYS_BASE, 39) &&
                   INDEX(KR_OWN_BASE, 39) > INDEX(KR_WINDOW_END, 39),
               "an entry of the root that nothing else uses");
_Static_assert(INDEX(KR_OWN_BASE, 21) == INDEX(KR_OWN_END - 1, 21), "one table of the last level");
_Static_assert(KR_OWN_BASE >= KR_WINDOW_END && KR_OWN_END <= KR_EMPTY_PATH, "layout.h");

static u64 *table(const struct kr_vm *vm, u64 gpa) { return (u64 *)(vm->pt + (gpa - KR_PT_GPA)); }

/* The pages of the last level: what ring 3 reaches of the vCPU's area, at the same distances; its own first page; the
 * trampolines. */
static void fill(struct kr_vm *vm, u64 *last, u32 idx) {
    for (u64 page = KR_PAGE; page < KR_VCPU_SIZE; page += KR_PAGE) {
        u64 entry = kr_pt_get(vm, KR_SYS_BASE + KR_VCPU_AREA(idx) + page);
        if (entry & KR_PTE_U)
            last[page / KR_PAGE] = entry;
    }
    const u64 code = KR_PTE_P | KR_PTE_U | KR_PTE_A | KR_PTE_D;
    last[0] = (KR_SYS_GPA + KR_SYS_OWN) | code;
    for (u64 at = KR_OWN_SITES; at < KR_OWN_END; at += KR_PAGE)
        last[INDEX(at, 12)] = (KR_SYS_GPA + KR_SYS_SITES + (at - KR_OWN_SITES)) | code;
}

int kr_root_make(struct kr_vm *vm, u32 idx) {
    u64 t[4]; /* the root first */
    if (idx >= vm->nroots) {
        u32 had = vm->nroots, room = (idx / STEP + 1) * STEP;
        u64 *old = vm->roots, *roots = kr_alloc(room * sizeof *roots);
        if (!roots)
            return -ENOMEM;
        if (had)
            memcpy(roots, old, had * sizeof *roots);
        vm->roots =
            roots; /* in this order, and the old ones last, because SIGKILL can end a relative (change.c) anywhere */
        __atomic_store_n(&vm->nroots, room, __ATOMIC_RELEASE);
        kr_free(old, had * sizeof *old);
    }
    if (vm->roots[idx])
        return 0;
    for (u32 i = 0; i < KR_COUNT(t); i++) {
        t[i] = kr_pt_table(vm);
        if (!t[i])
            return -ENOMEM; /* the pool is exhausted: nothing is lost by the tables that stay unused */
    }
    memcpy(table(vm, t[0]), table(vm, vm->root_gpa), KR_PAGE);
    table(vm, t[0])[INDEX(KR_OWN_BASE, 39)] = t[1] | LINK;
    table(vm, t[1])[INDEX(KR_OWN_BASE, 30)] = t[2] | LINK;
    table(vm, t[2])[INDEX(KR_OWN_BASE, 21)] = t[3] | LINK;
    fill(vm, table(vm, t[3]), idx);
    vm->roots[idx] = t[0];
    return 0;
}

/* The roots of a fork's parent are among them: the child's vCPUs use them again. */
void kr_root_linked(struct kr_vm *vm, u64 gva, u64 entry) {
    if (vm->root_gpa != KR_PT_GPA) /* the tables of a probe (probe.c) are nobody else's */
        return;
    for (u32 idx = 0; idx < vm->nroots; idx++)
        if (vm->roots[idx])
            __atomic_store_n(&table(vm, vm->roots[idx])[INDEX(gva, 39)], entry, __ATOMIC_RELEASE);
}
