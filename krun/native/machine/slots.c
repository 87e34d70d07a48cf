/* SPDX-License-Identifier: Apache-2.0
 *
 * The VM's memory slots (Documentation/virt/kvm/api.rst, KVM_SET_USER_MEMORY_REGION): see slots.h.
 *
 * State: of struct kr_vm nslots, pt_slots, next_chunk, chunk, chunk_list; under mm->lock.
 */
#include "slots.h"
#include "request.h"

/* Slot numbers: the system area's first part with the pool's first part, kr_vm_flush, the rest of the system area, then
 * all others in order of use. */
#define SLOT_SYS 0
#define SLOT_FLUSH 1
#define SLOT_MORE 2
#define SLOT_FIRST 3

/* A gap of so many parts gets no slots of its own at its ends, when a new VM takes over the chunks. */
#define SMALL_GAP 3

#define ALL_PARTS ((1u << KR_CHUNK_PARTS) - 1)

static long set_slot(struct kr_vm *vm, u32 slot, u64 gpa, u64 size, const void *host) {
    struct kvm_userspace_memory_region r = {
        .slot = slot, .guest_phys_addr = gpa, .memory_size = size, .userspace_addr = (u64)host};
    return ioctl_(vm->fd, KVM_SET_USER_MEMORY_REGION, &r);
}

static long new_slot(struct kr_vm *vm, u64 gpa, u64 size, const void *host) {
    if (vm->fd < 0)
        return 0; /* registered by kr_slots_create */
    long r = set_slot(vm, vm->nslots, gpa, size, host);
    if (r >= 0)
        vm->nslots++;
    return r;
}

static long pool_slot(struct kr_vm *vm, u64 number) {
    u64 off = KR_PT_REACH(number);
    return new_slot(vm, KR_PT_GPA + off, KR_PT_SLOT, vm->pt + off);
}

int kr_pt_slot(struct kr_vm *vm) {
    if (vm->pt_slots == KR_PT_SLOTS_MAX)
        return -ENOMEM;
    long r = pool_slot(vm, vm->pt_slots);
    if (r < 0)
        return (int)r;
    vm->pt_slots++;
    return 0;
}

int kr_slots_more(struct kr_vm *vm) { /* KVM accepts a slot again that it has */
    return (int)set_slot(vm, SLOT_MORE, KR_SYS_GPA + KR_SYS_MORE, KR_SYS_MORE_SIZE, vm->sys + KR_SYS_MORE);
}

/* ---- Chunks of the window ---- */

/* One slot for the parts [from, to) of chunk number n, which is window chunk c. */
static long part_slot(struct kr_vm *vm, u32 n, u64 c, u32 from, u32 to) {
    u64 off = from * KR_PART_SIZE;
    return new_slot(vm, KR_CHUNK_GPA + n * KR_CHUNK_SIZE + off, (to - from) * KR_PART_SIZE,
                    (void *)((c << KR_CHUNK_SHIFT) + off));
}

/* The next run of set bits of `parts` from bit *from on: [*from, *to). 0: there is none. */
static int next_run(u32 parts, u32 *from, u32 *to) {
    while (*from < KR_CHUNK_PARTS && !(parts >> *from & 1))
        ++*from;
    *to = *from;
    while (*to < KR_CHUNK_PARTS && (parts >> *to & 1))
        ++*to;
    return *from < KR_CHUNK_PARTS;
}

/* Which parts get slots when `need` is needed. The first two slots of a chunk cover what is needed, because most
 * processes need no more. Then it is a quarter of the chunk, then all of it, so that a process that grows makes few
 * slots. A process with many chunks gets whole chunks. */
static u32 widened(u32 number, u32 slots, u32 need) {
    if (number >= KR_SMALL_CHUNKS || slots >= 3)
        return ALL_PARTS;
    if (slots < 2)
        return need;
    u32 wide = 0;
    for (u32 quarter = 0xf; quarter & ALL_PARTS; quarter <<= 4)
        wide |= need & quarter ? quarter : 0;
    return wide;
}

static int cover(struct kr_vm *vm, u64 c, u32 need) {
    struct kr_chunk *k = kr_chunk_find(vm, c);
    if (k && !(need & ~k->parts))
        return 0;
    u32 n = k ? (u32)(k - vm->chunk_list) : vm->next_chunk;
    if (n == KR_SLOTS_MAX)
        return -ENOMEM;
    u32 parts = k ? k->parts : 0;
    need = widened(n, parts >> KR_CHUNK_PARTS, need) & ~parts;
    for (u32 from = 0, to; next_run(need, &from, &to); from = to) {
        long r = part_slot(vm, n, c, from, to);
        if (r < 0) /* EINVAL: KVM has no more numbers */
            return r == -EINVAL ? -ENOMEM : (int)r;
        parts += 1u << KR_CHUNK_PARTS;
        parts |= (1u << to) - (1u << from);
        __atomic_store_n(&vm->chunk_list[n].parts, parts, __ATOMIC_RELEASE);
        if (n < vm->next_chunk)
            continue;
        vm->chunk_list[n].at = (u32)c;
        __atomic_store_n(&vm->next_chunk, n + 1, __ATOMIC_RELEASE);
        if (n >= KR_SMALL_CHUNKS) /* last: names only a chunk that is counted, also for an heir */
            __atomic_store_n(&vm->chunk[c], n + 1, __ATOMIC_RELEASE);
    }
    return 0;
}

int kr_vm_cover(struct kr_vm *vm, u64 start, u64 end) {
    if (end > KR_WINDOW_END)
        return -EFAULT;
    if (start >= end)
        return 0;
    u64 first = start / KR_PART_SIZE, last = (end - 1) / KR_PART_SIZE;
    for (u64 p = first, stop; p <= last; p = stop) {
        stop = KR_MIN((p | (KR_CHUNK_PARTS - 1)) + 1, last + 1);
        u32 from = p & (KR_CHUNK_PARTS - 1), to = from + (u32)(stop - p);
        int r = cover(vm, p / KR_CHUNK_PARTS, (1u << to) - (1u << from));
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- The whole VM ---- */

int kr_slots_create(struct kr_vm *vm) {
    vm->nslots = SLOT_FIRST;
    long e = set_slot(vm, SLOT_SYS, KR_SYS_GPA, KR_SYS_SIZE + KR_PT_FIRST, vm->sys);
    for (u64 s = 1; e >= 0 && s < vm->pt_slots; s++)
        e = pool_slot(vm, s);
    for (u32 n = 0; e >= 0 && n < vm->next_chunk; n++) {
        struct kr_chunk *k = &vm->chunk_list[n];
        u32 parts = 0;
        for (u32 from = 0, to; e >= 0 && next_run(k->parts, &from, &to); from = to) {
            for (u32 next = to, end; next_run(k->parts, &next, &end) && next - to <= SMALL_GAP; next = to)
                to = end;
            e = part_slot(vm, n, k->at, from, to);
            parts = (parts | ((1u << to) - (1u << from))) + (1u << KR_CHUNK_PARTS);
        }
        k->parts = parts;
    }
    return e < 0 ? (int)e : 0;
}

void kr_slots_heir(struct kr_vm *vm) {
    /* A slot that KVM has, and that neither the pool nor the chunks count. */
    u32 counted = SLOT_FIRST + vm->pt_slots - 1;
    for (u32 n = 0; n < vm->next_chunk; n++)
        counted += vm->chunk_list[n].parts >> KR_CHUNK_PARTS;
    for (u32 s = counted; vm->fd >= 0 && s <= vm->nslots; s++)
        set_slot(vm, s, 0, 0, NULL);
    vm->nslots = counted;
}

void kr_vm_flush(struct kr_vm *vm) {
    if (vm->fd < 0)
        return;
    /* When a slot is deleted, KVM drops every translation and flushes all vCPUs. That holds for shadow paging and
     * for nested paging. */
    u64 gpa = KR_CHUNK_GPA - KR_PAGE;
    set_slot(vm, SLOT_FLUSH, gpa, KR_PAGE, vm->sys);
    set_slot(vm, SLOT_FLUSH, gpa, 0, vm->sys);
}
