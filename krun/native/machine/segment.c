/* SPDX-License-Identifier: Apache-2.0
 *
 * Attached System V segments: see segment.h. A number is in use as long as a mapping has it, so nothing gives it back.
 *
 * State: the table of numbers, under mm->lock. An entry is written before a mapping has its number.
 */
#include "segment.h"
#include "vma.h"

#define NUMBERS 65535u

struct attached {
    u64 base, size;
    u32 id;
};
static struct attached *table; /* of number n at n - 1 */
static u32 room;

static u32 number_of(u32 flags) { return flags >> KR_VMA_SEGMENT_SHIFT; }

static int make_room(u32 n) {
    u32 more = room ? room : 16;
    while (more < n)
        more *= 2;
    if (more == room)
        return 0;
    struct attached *old = table, *t = kr_alloc(more * sizeof *t);
    u32 was = room;
    if (!t)
        return -ENOMEM;
    if (old)
        memcpy(t, old, was * sizeof *t);
    /* In this order, for an heir: the table is never smaller than its room says. */
    __atomic_store_n(&table, t, __ATOMIC_RELEASE);
    __atomic_store_n(&room, more, __ATOMIC_RELEASE);
    kr_free(old, was * sizeof *old);
    return 0;
}

/* The lowest number that no mapping has; 0: none. */
static u32 unused(const struct kr_mm *mm) {
    size_t size = (NUMBERS + 1) / 8;
    u8 *used = kr_alloc(size);
    u32 n = 1;
    if (!used)
        return 0;
    for (u32 i = 0; i < mm->nvma; i++)
        used[number_of(mm->vma[i].flags) / 8] |= (u8)(1u << number_of(mm->vma[i].flags) % 8);
    while (n <= NUMBERS && used[n / 8] >> n % 8 & 1)
        n++;
    kr_free(used, size);
    return n <= NUMBERS ? n : 0;
}

u32 kr_segment_flags(struct kr_mm *mm, s32 id, u64 base, u64 size) {
    u32 n = unused(mm);
    if (!n || make_room(n) < 0)
        return 0;
    table[n - 1] = (struct attached){base, size, (u32)id};
    return n << KR_VMA_SEGMENT_SHIFT;
}

int kr_segment_moves(struct kr_mm *mm, u32 *flags, u64 from, u64 to) {
    u32 n = number_of(*flags);
    if (!n)
        return 0;
    const struct attached a = table[n - 1];
    u32 fresh = kr_segment_flags(mm, (s32)a.id, a.base + (to - from), a.size);
    if (!fresh)
        return -ENOMEM;
    *flags = (*flags & ((1u << KR_VMA_SEGMENT_SHIFT) - 1)) | fresh;
    return 0;
}

struct kr_vma *kr_segment_find(struct kr_mm *mm, u64 addr, u64 base, u32 *id) {
    for (u32 i = kr_vma_index(mm, addr); i < mm->nvma; i++) {
        u32 n = number_of(mm->vma[i].flags);
        if (!n || table[n - 1].base != base || (*id != ~0u && table[n - 1].id != *id))
            continue;
        if (*id != ~0u && mm->vma[i].end - base > table[n - 1].size) /* mremap(2) has grown it */
            break;
        *id = table[n - 1].id;
        return &mm->vma[i];
    }
    return NULL;
}
