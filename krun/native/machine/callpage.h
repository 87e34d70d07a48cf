/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guest's code for completed calls (guest/engine.S) needs of a vCPU: its pages, and the meaning of a RIP in
 * the stub page. The functions that take a VM are called with mm->lock held.
 */
#ifndef KR_MACHINE_CALLPAGE_H
#define KR_MACHINE_CALLPAGE_H

#include "vm.h"
#include "../guest/callpage.h"
#include "../guest/patched.h"

/* Puts the code behind the exit into the shared stub page. */
void kr_callpage_code(u8 *stub);
/* Maps the fact page of v; the call page is there in any case. 0 or -ENOMEM. */
int kr_callpage_map(struct kr_vm *vm, struct kr_vcpu *v);
/* Called when v gets an owner: completion is off, no record of an earlier owner is left, and the counters are zero.
 * Tells the owner to decide anew (local/local.h). */
void kr_callpage_reset(struct kr_vm *vm, struct kr_vcpu *v);

static inline struct kr_fact_page *kr_fact_page(const struct kr_vm *vm, u32 idx) {
    return (struct kr_fact_page *)(vm->sys + KR_VCPU_AREA(idx) + KR_VCPU_FACT);
}
static inline volatile struct kr_call_page *kr_call_page(const struct kr_vm *vm, u32 idx) {
    return (volatile struct kr_call_page *)(vm->sys + KR_VCPU_AREA(idx) + KR_VCPU_CALL);
}

static inline volatile struct kr_patched *kr_patched_page(const struct kr_vm *vm, u32 idx) {
    return (volatile struct kr_patched *)(vm->sys + KR_VCPU_AREA(idx) + KR_VCPU_CALL + KR_PP_RSP);
}

/* What rcx is when a call of a patched site has left by SYSCALL. */
u64 kr_engine_left_by(void);

/* What a RIP means, where stub is the address of the vCPU's stub page. */
enum kr_place {
    KR_PLACE_ELSE,   /* not in the code */
    KR_PLACE_OUT,    /* at the exit: the registers are those of the call */
    KR_PLACE_ENTRY,  /* at LSTAR: the same */
    KR_PLACE_BEFORE, /* the call has not begun: kr_engine_undo gives the registers of the call */
    KR_PLACE_AFTER,  /* the call is complete: kr_engine_end gives the registers after it */
    KR_PLACE_POST, /* the same, but a store is missing, or may be: that of post to post_at in the call page */
    KR_PLACE_PATCHED, /* in the way of patched sites: as BEFORE, by kr_engine_undo_patched */
};
enum kr_place kr_engine_place(u64 stub, u64 rip);
/* For the places ENTRY and BEFORE: makes r what it is at the exit. save: a copy of the call page's. */
void kr_engine_undo(const u64 save[16], u64 stub, struct kvm_regs *r);
/* The same for the place PATCHED. rsp: a copy of struct kr_patched's. */
void kr_engine_undo_patched(const u64 save[16], u64 rsp, u64 stub, struct kvm_regs *r);
/* For the places AFTER and POST: makes r what it is after SYSCALL. Flags that ring 3 must not set are left out. */
void kr_engine_end(const u64 save[16], u64 result, struct kvm_regs *r);

#endif
