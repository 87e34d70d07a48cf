/* SPDX-License-Identifier: Apache-2.0
 *
 * A root table for each vCPU, so that KR_OWN_BASE (guest/patched.h) leads to the pages of that vCPU. All other entries of
 * a root are those of the VM's first root. The roots are made with the first patched site. A vCPU may have none, for want of
 * memory: then each call of a patched site ends in a page fault, and is served as an exit (machine/site.h).
 *
 * The rules of pt.c hold: no table changes its place, and an entry of a root only becomes present. All functions are called
 * with mm->lock held.
 */
#ifndef KR_ROOT_H
#define KR_ROOT_H

#include "vm.h"

/* The root with which vCPU idx runs. */
static inline u64 kr_root(const struct kr_vm *vm, u32 idx) {
    return idx < vm->nroots && vm->roots[idx] ? vm->roots[idx] : vm->root_gpa;
}
/* Makes the root of vCPU idx, whose pages are mapped. Does nothing if it has one. 0 or -ENOMEM. */
int kr_root_make(struct kr_vm *vm, u32 idx);
/* An entry of the VM's first root has become present. */
void kr_root_linked(struct kr_vm *vm, u64 gva, u64 entry);

#endif
