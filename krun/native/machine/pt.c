/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's page tables: four levels (AMD APM vol. 2, 5.3) in a pool that ring 3 never sees. Only the
 * monitor writes them.
 *
 * State: vm->pt, under mm->lock. Rules, which KVM's shadow paging asks for (PVM has no other; kernel:
 * Documentation/virt/kvm/x86/mmu.rst):
 *
 *   1. A table page that is linked stays linked at its place for the life of the VM. Shadow paging keeps a
 *      copy of the upper levels, and would mix up a table page that gets a second use.
 *   2. An entry that becomes present or gains rights needs no flush. After any other change the caller makes
 *      the host's munmap(2) or mprotect(2) of the range (mm.c, remap.c), whose MMU notifier drops KVM's
 *      translations.
 *   3. The accessed and dirty bits are set from the start, so that neither processor nor KVM writes the tables.
 *   4. A 2 MiB leaf is set only where no table was linked before. When a leaf becomes a table, every
 *      translation is dropped (kr_vm_flush), because shadow paging would go on using its table of the leaf.
 *      A cleared leaf leaves WAS_LEAF in its entry.
 */
#include "root.h"
#include "slots.h"
#include <linux/mman.h>

#define ENTRIES 512
#define BLOCK (2ULL << 20)
#define WAS_LEAF (1ULL << 9) /* bits 9-11 are free for software */
#define ADDRESS 0x000ffffffffff000ULL

/* The table that an entry leads to. The bound is a second wall: should ring 0 of the guest ever write a table, no entry
 * leads the monitor out of the pool. */
static u64 *table_at(struct kr_vm *vm, u64 entry) {
    u64 off = (entry & ADDRESS) - KR_PT_GPA;
    if (off >= vm->pt_used * KR_PAGE)
        kr_die("page tables: entry 0x%lx leads out of the pool", (unsigned long)entry);
    return (u64 *)(vm->pt + off);
}

/* Returns the guest-physical address of a zeroed table page; 0: the pool is exhausted. Registers one more slot
 * when the registered part of the pool is used up. */
u64 kr_pt_table(struct kr_vm *vm) {
    if ((vm->pt_used + 1ULL) * KR_PAGE > KR_PT_REACH((u64)vm->pt_slots) && kr_pt_slot(vm) < 0)
        return 0;
    if ((vm->pt_used + 1ULL) * KR_PAGE > vm->pt_backed && kr_pt_back(vm) < 0)
        return 0;
    return KR_PT_GPA + KR_PAGE * vm->pt_used++; /* fresh anonymous memory is zero */
}

/* The page-directory entry (2 MiB) for gva. make: links the tables above it that are missing. NULL: the entry
 * does not exist, or no memory. */
static u64 *directory_entry(struct kr_vm *vm, u64 gva, int make) {
    u64 *table = (u64 *)(vm->pt + (vm->root_gpa - KR_PT_GPA));
    for (int shift = 39; shift > 21; shift -= 9) {
        u64 *entry = &table[(gva >> shift) & (ENTRIES - 1)];
        if (!(*entry & KR_PTE_P)) {
            if (!make)
                return NULL;
            u64 gpa = kr_pt_table(vm);
            if (!gpa)
                return NULL;
            /* Upper levels allow everything: the last level decides. */
            __atomic_store_n(entry, gpa | KR_PTE_P | KR_PTE_W | KR_PTE_U | KR_PTE_A, __ATOMIC_RELEASE);
            if (shift == 39)
                kr_root_linked(vm, gva, *entry);
        }
        table = table_at(vm, *entry);
    }
    return &table[(gva >> 21) & (ENTRIES - 1)];
}

/* The last-level table for gva. A leaf in its place becomes a table with the same rights. */
static u64 *leaf_table(struct kr_vm *vm, u64 gva, int make) {
    u64 *entry = directory_entry(vm, gva, make);
    if (!entry || (!(*entry & KR_PTE_P) && !make))
        return NULL;
    u64 e = *entry;
    if ((e & (KR_PTE_P | KR_PTE_PS)) == KR_PTE_P)
        return table_at(vm, e);
    u64 gpa = kr_pt_table(vm);
    if (!gpa)
        return NULL;
    u64 *table = table_at(vm, gpa);
    if (e & KR_PTE_P)
        for (u64 i = 0; i < ENTRIES; i++)
            table[i] = (e & ~(u64)KR_PTE_PS) + i * KR_PAGE;
    __atomic_store_n(entry, gpa | KR_PTE_P | KR_PTE_W | KR_PTE_U | KR_PTE_A, __ATOMIC_RELEASE);
    if (e & (KR_PTE_P | WAS_LEAF))
        kr_vm_flush(vm);
    return table;
}

static u64 prot_bits(u32 prot) {
    if (!(prot & (PROT_READ | PROT_WRITE | PROT_EXEC)))
        return 0;
    return KR_PTE_P | KR_PTE_U | KR_PTE_A | KR_PTE_D | (prot & PROT_WRITE ? KR_PTE_W : 0) |
           (prot & PROT_EXEC ? 0 : KR_PTE_NX);
}

static u64 window_gpa(struct kr_vm *vm, u64 gva) {
    if (gva >= KR_WINDOW_END)
        return 0;
    const struct kr_chunk *k = kr_chunk_find(vm, gva >> KR_CHUNK_SHIFT);
    u64 off = gva & (KR_CHUNK_SIZE - 1);
    if (!k || !(k->parts >> (off / KR_PART_SIZE) & 1))
        return 0;
    return KR_CHUNK_GPA + (u64)(k - vm->chunk_list) * KR_CHUNK_SIZE + off;
}

int kr_pt_leaf(struct kr_vm *vm, u64 block, u32 prot) {
    u64 *entry = directory_entry(vm, block, 1), gpa = window_gpa(vm, block);
    if (!entry || !gpa || ((*entry & KR_PTE_P) && !(*entry & KR_PTE_PS)))
        return 0;
    __atomic_store_n(entry, gpa | prot_bits(prot) | KR_PTE_PS, __ATOMIC_RELEASE);
    return 1;
}

int kr_pt_touched(struct kr_vm *vm, u64 gva) {
    u64 *entry = directory_entry(vm, gva, 0);
    return entry && (*entry & KR_PTE_P);
}

int kr_pt_update(struct kr_vm *vm, u64 start, u64 end, u32 prot, int make) {
    if (end > KR_WINDOW_END) /* only kr_pt_sys() writes the entries of the system area */
        return -EFAULT;
    u64 bits = prot_bits(prot);
    while (start < end) {
        u64 block_end = KR_MIN((start | (BLOCK - 1)) + 1, end);
        u64 *entry = directory_entry(vm, start, make && bits);
        u64 e = entry ? *entry : 0;
        if (!entry || (!(make && bits) && !(e & KR_PTE_P))) { /* no entry exists, and none must be made */
            if (make && bits)
                return -ENOMEM;
            start = block_end;
            continue;
        }
        u64 gpa = bits ? window_gpa(vm, start) : 0;
        if (bits && !gpa) { /* its part has no slot, so no page of it was mapped yet */
            start = block_end;
            continue;
        }
        if ((e & (KR_PTE_PS | WAS_LEAF)) &&
            block_end - start == BLOCK) { /* a leaf that changes as a whole stays a leaf */
            __atomic_store_n(entry, bits ? gpa | bits | KR_PTE_PS : WAS_LEAF, __ATOMIC_RELEASE);
            start = block_end;
            continue;
        }
        u64 *table = leaf_table(vm, start, 1);
        if (!table)
            return -ENOMEM;
        for (u64 *p = &table[(start >> 12) & (ENTRIES - 1)]; start < block_end;
             start += KR_PAGE, p++, gpa += KR_PAGE)
            __atomic_store_n(p, bits ? gpa | bits : 0, __ATOMIC_RELAXED);
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return 0;
}

int kr_pt_sys(struct kr_vm *vm, u64 gva, u64 gpa, u64 pte_flags) {
    u64 *table = leaf_table(vm, gva, 1);
    if (!table)
        return -ENOMEM;
    table[(gva >> 12) & (ENTRIES - 1)] = gpa | pte_flags | KR_PTE_P | KR_PTE_A | KR_PTE_D;
    return 0;
}

u64 kr_pt_get(struct kr_vm *vm, u64 gva) {
    u64 *entry = directory_entry(vm, gva, 0);
    if (!entry || !(*entry & KR_PTE_P) || (*entry & KR_PTE_PS))
        return entry ? *entry : 0;
    return table_at(vm, *entry)[(gva >> 12) & (ENTRIES - 1)];
}

int kr_pt_init(struct kr_vm *vm) {
    vm->pt_used = 0;
    vm->root_gpa = kr_pt_table(vm);
    return vm->root_gpa ? 0 : -ENOMEM;
}
