/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's page tables: four levels in a pool that ring 3 never sees, written by the monitor only (AMD APM vol. 2, 5.3).
 *
 * State: vm->pt, under mm->lock. Rules (portability.md, rule 8):
 *  - a table page, once linked, stays linked at its place for the life of the VM: shadow paging keeps its own copy of the upper
 *    levels and would mix up a table page that is given a second job;
 *  - making an entry present or more permissive needs no flush; anything else is followed by the host's own munmap/mprotect of
 *    the range (vmm/mm.c), whose MMU notifier drops KVM's translations;
 *  - accessed and dirty bits are set from the start, so that nobody writes to the tables but us.
 */
#include "vm.h"
#include <linux/mman.h>

#define ENTRIES 512

static u64 *table_at(struct kr_vm *vm, u64 entry)
{
    return (u64 *)(vm->pt + ((entry & 0x000ffffffffff000ULL) - KR_PT_GPA));
}

/* A zeroed table page; 0 when the pool is exhausted. Registers a further slot when the pool's registered part is used up. */
static u64 new_table(struct kr_vm *vm)
{
    if ((vm->pt_used + 1ULL) * KR_PAGE > vm->pt_slots * KR_PT_SLOT && kr_pt_slot(vm) < 0)
        return 0;
    return KR_PT_GPA + KR_PAGE * vm->pt_used++; /* fresh anonymous memory is zero */
}

/* The last-level table for gva. make: link what is missing. NULL: absent, or no memory. */
static u64 *leaf_table(struct kr_vm *vm, u64 gva, int make)
{
    u64 *table = (u64 *)(vm->pt + (vm->root_gpa - KR_PT_GPA));
    for (int shift = 39; shift > 12; shift -= 9) {
        u64 *entry = &table[(gva >> shift) & (ENTRIES - 1)];
        if (!(*entry & KR_PTE_P)) {
            if (!make)
                return NULL;
            u64 gpa = new_table(vm);
            if (!gpa)
                return NULL;
            /* Upper levels allow everything; the last one decides. */
            __atomic_store_n(entry, gpa | KR_PTE_P | KR_PTE_W | KR_PTE_U | KR_PTE_A, __ATOMIC_RELEASE);
        }
        table = table_at(vm, *entry);
    }
    return table;
}

static u64 prot_bits(u32 prot)
{
    if (!(prot & (PROT_READ | PROT_WRITE | PROT_EXEC)))
        return 0;
    return KR_PTE_P | KR_PTE_U | KR_PTE_A | KR_PTE_D | (prot & PROT_WRITE ? KR_PTE_W : 0) |
           (prot & PROT_EXEC ? 0 : KR_PTE_NX);
}

int kr_pt_update(struct kr_vm *vm, u64 start, u64 end, u32 prot, int make)
{
    u64 bits = prot_bits(prot);
    while (start < end) {
        u64 block_end = KR_MIN((start | 0x1fffff) + 1, end);
        u64 *table = leaf_table(vm, start, make && bits);
        if (!table) {
            if (make && bits)
                return -ENOMEM;
            start = block_end;
            continue;
        }
        u64 gpa = 0;
        if (bits) {
            u32 chunk = vm->chunk[start >> KR_CHUNK_SHIFT];
            if (!chunk) { /* an existing table over a chunk without a slot: nothing was mapped there yet */
                start = block_end;
                continue;
            }
            gpa = KR_CHUNK_GPA + (u64)(chunk - 1) * KR_CHUNK_SIZE + (start & (KR_CHUNK_SIZE - 1));
        }
        for (u64 *e = &table[(start >> 12) & (ENTRIES - 1)]; start < block_end; start += KR_PAGE, e++, gpa += KR_PAGE)
            __atomic_store_n(e, bits ? gpa | bits : 0, __ATOMIC_RELAXED);
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return 0;
}

int kr_pt_sys(struct kr_vm *vm, u64 gva, u64 gpa, u64 pte_flags)
{
    u64 *table = leaf_table(vm, gva, 1);
    if (!table)
        return -ENOMEM;
    table[(gva >> 12) & (ENTRIES - 1)] = gpa | pte_flags | KR_PTE_P | KR_PTE_A | KR_PTE_D;
    return 0;
}

u64 kr_pt_get(struct kr_vm *vm, u64 gva)
{
    u64 *table = leaf_table(vm, gva, 0);
    return table ? table[(gva >> 12) & (ENTRIES - 1)] : 0;
}

int kr_pt_init(struct kr_vm *vm)
{
    vm->pt_used = 0;
    vm->root_gpa = new_table(vm);
    return vm->root_gpa ? 0 : -ENOMEM;
}
