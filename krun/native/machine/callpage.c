/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages for completed calls, and the meaning of a RIP in their code: see callpage.h. No state of its own.
 */
#include "callpage.h"
#include "root.h"
#include "x86.h"

_Static_assert(KR_VCPU_CALL - KR_VCPU_STUB == KR_EO_CALL && KR_VCPU_FACT - KR_VCPU_STUB == KR_EO_FACT,
               "guest/callpage.h");
_Static_assert(KR_LOCAL_FLAGS == (KR_SFMASK & ~0x3000u), "SFMASK without IOPL, which ring 3 never has");

/* guest/engine.S */
extern const u8 kr_engine[], kr_engine_r11_saved[], kr_engine_rax_saved[], kr_engine_regs_saved[],
    kr_engine_after[], kr_engine_post[], kr_engine_posted[];
/* guest/engine_patched.inc */
extern const u8 kr_engine_patched[], kr_engine_rsp_ours[], kr_engine_flags_read[], kr_engine_patched_saved[],
    kr_engine_leave[], kr_engine_left[], kr_engine_page_end[];

void kr_callpage_code(u8 *stub) { memcpy(stub, kr_engine, (size_t)(kr_engine_page_end - kr_engine)); }

int kr_callpage_map(struct kr_vm *vm, struct kr_vcpu *v) {
    u64 page = KR_VCPU_AREA(v->idx) + KR_VCPU_FACT;
    int r = kr_pt_sys(vm, KR_SYS_BASE + page, KR_SYS_GPA + page, KR_PTE_U | KR_PTE_NX);
    if (!r && vm->sites)
        kr_root_make(vm, v->idx); /* without it, calls of patched sites are exits */
    return r;
}

void kr_callpage_reset(struct kr_vm *vm, struct kr_vcpu *v) {
    memset(kr_fact_page(vm, v->idx), 0, sizeof(struct kr_fact_page));
    memset(vm->sys + KR_VCPU_AREA(v->idx) + KR_VCPU_CALL, 0, KR_PAGE);
    memset(v->owner->local.done, 0, sizeof v->owner->local.done);
    memset(v->owner->local.declined, 0, sizeof v->owner->local.declined);
    v->owner->local.patched = 0;
    v->owner->local.possible = 1;
    __atomic_add_fetch(&v->owner->local.generation, 1, __ATOMIC_RELEASE);
}

enum kr_place kr_engine_place(u64 stub, u64 rip) {
    u64 off = rip - stub;
    if (off <= 2) /* at the OUT, and behind it */
        return KR_PLACE_OUT;
    if (off == KR_EO_ENTRY)
        return KR_PLACE_ENTRY;
    if (off < KR_EO_ENTRY ||
        off >= (u64)(kr_engine_left - kr_engine)) /* nothing comes back behind the last SYSCALL */
        return KR_PLACE_ELSE;
    if (off >= (u64)(kr_engine_patched - kr_engine))
        return KR_PLACE_PATCHED;
    if (off >= (u64)(kr_engine_post - kr_engine) && off <= (u64)(kr_engine_posted - kr_engine))
        return KR_PLACE_POST;
    return off < (u64)(kr_engine_after - kr_engine) ? KR_PLACE_BEFORE : KR_PLACE_AFTER;
}

/* The registers that are saved before kr_engine_regs_saved. */
static void restore(const u64 save[16], struct kvm_regs *r) {
    r->rcx = save[KR_SAVE_RCX];
    r->rdx = save[KR_SAVE_RDX];
    r->rsi = save[KR_SAVE_RSI];
    r->rdi = save[KR_SAVE_RDI];
    r->r8 = save[KR_SAVE_R8];
    r->r9 = save[KR_SAVE_R9];
    r->r10 = save[KR_SAVE_R10];
}

void kr_engine_undo(const u64 save[16], u64 stub, struct kvm_regs *r) {
    u64 off = r->rip - stub;
    if (off >= (u64)(kr_engine_r11_saved - kr_engine))
        r->r11 = save[KR_SAVE_R11];
    if (off >= (u64)(kr_engine_rax_saved - kr_engine))
        r->rax = save[KR_SAVE_RAX];
    if (off >= (u64)(kr_engine_regs_saved - kr_engine))
        restore(save, r);
    r->rip = stub + KR_EO_OUT;
}

void kr_engine_undo_patched(const u64 save[16], u64 rsp, u64 stub, struct kvm_regs *r) {
    u64 off = r->rip - stub;
    if (off < (u64)(kr_engine_flags_read - kr_engine)) {
        r->r11 = r->rflags & ~0x10000ULL; /* RF */
        if (off >= (u64)(kr_engine_rsp_ours - kr_engine))
            r->rsp = rsp;
    } else if (off >= (u64)(kr_engine_patched_saved - kr_engine) &&
               off < (u64)(kr_engine_leave - kr_engine)) {
        r->r11 = save[KR_SAVE_R11];
        r->rax = save[KR_SAVE_RAX];
    }
    r->rip = stub + KR_EO_OUT;
}

u64 kr_engine_left_by(void) { return KR_OWN_BASE + (u64)(kr_engine_left - kr_engine); }

void kr_engine_end(const u64 save[16], u64 result, struct kvm_regs *r) {
    r->rax = result;
    restore(save, r);
    r->rip = r->rcx;
    r->r11 = save[KR_SAVE_R11];
    r->rflags = (r->r11 & KR_FLAGS_USER) | KR_FLAGS_FIXED;
}
