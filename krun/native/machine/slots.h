/* SPDX-License-Identifier: Apache-2.0
 *
 * The VM's memory slots. KVM makes tables of some ten bytes for each page of a slot and charges them to the process's
 * memory cgroup, used or not. Therefore a slot covers little more than what is needed: parts of a chunk of the window,
 * and the first parts of the system area and of the page-table pool. A slot cannot grow; each costs one request, and
 * the grace period of an SRCU. fork makes one slot of parts that lie side by side.
 *
 * All functions are called with mm->lock held. Each change is complete with its last store, so that an heir
 * (kr_slots_heir) finds a slot either counted or not.
 */
#ifndef KR_SLOTS_H
#define KR_SLOTS_H

#include "vm.h"

#define KR_PART_SIZE (KR_CHUNK_SIZE / KR_CHUNK_PARTS)

/* Registers every slot with the new VM vm->fd. 0 or -errno. */
int kr_slots_create(struct kr_vm *vm);
/* Registers the part of the system area behind its first one. 0 or -errno. */
int kr_slots_more(struct kr_vm *vm);
/* Takes back a slot that a dead process has made and not counted. */
void kr_slots_heir(struct kr_vm *vm);

/* The entry of window chunk c; NULL: no slot covers any part of it. The first chunks are found in the list, which saves
 * most processes the pages of vm->chunk. */
static inline struct kr_chunk *kr_chunk_find(const struct kr_vm *vm, u64 c) {
    for (u32 n = 0; n < KR_MIN(vm->next_chunk, KR_SMALL_CHUNKS); n++)
        if (vm->chunk_list[n].at == c)
            return &vm->chunk_list[n];
    u32 n = vm->next_chunk > KR_SMALL_CHUNKS ? vm->chunk[c] : 0;
    return n && n <= vm->next_chunk ? &vm->chunk_list[n - 1] : NULL;
}

#endif
