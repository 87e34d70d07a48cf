/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap: see kr_alloc.h. State: a free list for each size class, and one region from which new objects are cut.
 * Lock: heap_lock; no other lock is taken inside it.
 *
 * Each change of the state is one store. A process that is killed inside heap_lock (lib/kr_lock.h) therefore leaves
 * a heap that is right; at most one object is lost.
 */
#include "kr_alloc.h"
#include "kr_guard.h"
#include "kr_lib.h"
#include "kr_lock.h"
#include <linux/mman.h>

#define SMALLEST 5 /* 32 bytes */
#define LARGEST 15 /* 32 KiB; a larger object is a mapping of its own */
#define REGION (64u << 10)

static struct kr_lock heap_lock;
static void *free_list[LARGEST + 1];

/* New objects are cut from here. What is cut off is counted in the region itself: so each change is one store. */
static struct region {
    u64 used; /* bytes of memory[] */
    u64 pad[3];
    u8 memory[REGION - 32];
} * region;
_Static_assert(sizeof(struct region) == REGION, "memory[] begins at a multiple of the smallest object");

static unsigned class_of(size_t size) {
    return size <= (1u << SMALLEST) ? SMALLEST : 64 - (unsigned)__builtin_clzl(size - 1);
}

static void *map(size_t size) {
    long p = kr_sys6(__NR_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (u64)-1, 0);
    if (p < 0)
        return NULL;
    kr_guard_memory((u64)p, size);
    return (void *)p;
}

/* An object; *old: whether it was in use before, so that its bytes are not zero. */
static void *take(size_t size, int *old) {
    *old = 0;
    if (size > (1u << LARGEST))
        return map(KR_PAGE_UP(size));
    unsigned c = class_of(size);
    size_t n = (size_t)1 << c;
    kr_lock(&heap_lock);
    void **p = free_list[c]; /* a free object begins with the address of the next one */
    if (p) {
        free_list[c] = *p;
        kr_unlock(&heap_lock);
        *old = 1;
        return p;
    }
    if (!region || sizeof region->memory - region->used < n) {
        struct region *r = map(REGION); /* the rest of the old region, less than one object, stays unused */
        if (!r) {
            kr_unlock(&heap_lock);
            return NULL;
        }
        region = r;
    }
    p = (void **)(region->memory + region->used);
    region->used += n;
    kr_unlock(&heap_lock);
    return p; /* fresh pages are zero */
}

void *kr_alloc(size_t size) {
    int old;
    void *p = take(size, &old);
    if (old)
        memset(p, 0, size);
    return p;
}

void *kr_alloc_any(size_t size) {
    int old;
    return take(size, &old);
}

void kr_free(void *p, size_t size) {
    if (!p)
        return;
    if (size > (1u << LARGEST)) {
        kr_sys2(__NR_munmap, p, KR_PAGE_UP(size));
        return;
    }
    unsigned c = class_of(size);
    kr_lock(&heap_lock);
    *(void **)p = free_list[c];
    __atomic_store_n(&free_list[c], p, __ATOMIC_RELEASE);
    kr_unlock(&heap_lock);
}

void *kr_realloc(void *p, size_t old_size, size_t new_size) {
    if (p && old_size <= (1u << LARGEST) && new_size <= (1u << LARGEST) &&
        class_of(old_size) == class_of(new_size))
        return p;
    void *q = kr_alloc(new_size);
    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, KR_MIN(old_size, new_size));
    kr_free(p, old_size);
    return q;
}

void kr_alloc_before_fork(void) { kr_lock(&heap_lock); }

void kr_alloc_after_fork(void) { kr_unlock(&heap_lock); }
