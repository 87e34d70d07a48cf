/* SPDX-License-Identifier: Apache-2.0
 *
 * What a RIP at a patched site or in a trampoline means: see site.h. No state of its own, no locks: reads vm->sites.
 */
#include "siteplace.h"
#include "usercopy.h"
#include "x86.h"

#define FLAG_RF 0x10000ULL
#define FLAG_TF 0x100ULL
#define ARITHMETIC 0x8d5ULL /* CF PF AF ZF SF OF */

struct kr_site *kr_site_find(struct kr_sites *sites, u64 ret) {
    for (u32 h = kr_site_hash(ret); sites->find[h]; h = (h + 1) & (KR_SITE_FIND - 1)) {
        struct kr_site *s = &sites->site[sites->find[h] - 1];
        if (kr_site_after_call(s) == ret)
            return s;
    }
    return NULL;
}

int kr_site_is_patched(const struct kr_vm *vm, u64 ret) {
    const struct kr_site *s = vm->sites ? kr_site_find(vm->sites, ret) : NULL;
    return s && __atomic_load_n(&s->live, __ATOMIC_ACQUIRE);
}

/* The site in whose trampoline addr lies, and the offset there; NULL. */
static const struct kr_site *trampoline(const struct kr_vm *vm, u64 addr, u32 *off) {
    u64 at = addr - KR_OWN_SITES, i = at / KR_SITE_SIZE;
    *off = (u32)(at % KR_SITE_SIZE);
    return vm->sites && at < KR_OWN_END - KR_OWN_SITES && i < vm->sites->n ? &vm->sites->site[i] : NULL;
}

u64 kr_site_return(const struct kr_vm *vm, u64 ret) {
    u32 off;
    const struct kr_site *s = trampoline(vm, ret, &off);
    return s && s->form == KR_SITE_COMPARE && off == KR_SITE_TAIL ? kr_site_after_call(s) : ret;
}

enum kr_place kr_site_place(const struct kr_vm *vm, struct kvm_regs *r) {
    u32 off;
    const struct kr_site *s = trampoline(vm, r->rip, &off);
    if (!s || off >= (s->form == KR_SITE_NUMBER ? KR_SITE_TAIL + 4 : KR_SITE_TAIL_END))
        return KR_PLACE_ELSE;
    if (s->form == KR_SITE_NUMBER || off < KR_SITE_TAIL) { /* what the trampoline loads */
        if (s->form == KR_SITE_NUMBER)
            r->rax = s->nr;
        r->rcx = kr_site_after_call(s);
        r->r11 = r->rflags & ~FLAG_RF;
        return KR_PLACE_BEFORE;
    }
    r->rcx = kr_site_after_call(s);
    r->rip = off < KR_SITE_TAIL_JUMP ? r->rcx : s->at + kr_site_length(s);
    return KR_PLACE_AFTER;
}

void kr_site_stepped(const struct kr_vm *vm, struct kvm_regs *r) {
    u32 off;
    const struct kr_site *s = trampoline(vm, r->rip, &off);
    if (s && s->form == KR_SITE_NUMBER && !off) {
        r->rax = s->nr;
        r->rip = s->at + kr_site_second(s);
    }
}

/* cmp $imm,%rax */
static void compare(const struct kr_site *s, struct kvm_regs *r) {
    s32 imm;
    memcpy(&imm, s->was + 4, sizeof imm);
    u64 a = r->rax, b = (u64)(s64)imm, d = a - b;
    u64 even = ~(u64)__builtin_parity((u32)d & 0xff) & 1;
    r->rflags = (r->rflags & ~(ARITHMETIC | FLAG_RF)) | (a < b) | even << 2 | ((a ^ b ^ d) & 0x10) |
                (u64)(d == 0) << 6 | d >> 63 << 7 | ((a ^ b) & (a ^ d)) >> 63 << 11;
    r->rip = s->at + kr_site_length(s);
}

void kr_site_enter(const struct kr_vm *vm, struct kvm_regs *r) {
    const struct kr_site *s = kr_site_find(vm->sites, r->rip);
    /* A single step must end at the instruction: kr_site_middle. */
    if (s && s->form == KR_SITE_COMPARE && __atomic_load_n(&s->live, __ATOMIC_ACQUIRE) &&
        !(r->rflags & FLAG_TF))
        compare(s, r);
}

enum kr_middle kr_site_middle(const struct kr_vm *vm, u32 vec, struct kvm_regs *r) {
    struct kr_site *s = kr_site_find(vm->sites, r->rip + (vec == VEC_UD ? 2 : 0));
    if (!s || s->form != (vec == VEC_UD ? KR_SITE_NUMBER : KR_SITE_COMPARE))
        return KR_MIDDLE_NO;
    u8 now[8];
    u32 n = kr_site_length(s);
    if (kr_copy_in(now, s->at, n) < 0)
        return KR_MIDDLE_NO;
    if (memcmp(now, s->now, n)) /* undone meanwhile: the original instruction faults neither so nor at all */
        return memcmp(now, s->was, n) ? KR_MIDDLE_NO : KR_MIDDLE_RETRY;
    if (s->form == KR_SITE_COMPARE) {
        compare(s, r);
        return KR_MIDDLE_DONE;
    }
    r->rcx = kr_site_after_call(s);
    r->r11 = r->rflags & ~FLAG_RF;
    return KR_MIDDLE_CALL;
}
