/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills descriptor tables, stubs, TSS and control registers: see x86.h. No state.
 */
#include "x86.h"

/* Descriptors of the GDT. An exception loads CS from here; KVM_SET_SREGS sets the hidden parts of the segments. */
#define DESC_CODE64(dpl) (0x00209b0000000000ULL | (u64)(dpl) << 45)
#define DESC_DATA(dpl) (0x00cf93000000ffffULL | (u64)(dpl) << 45)

#define IST_EXC 1
#define IST_DF 2

static void gate(u8 *idt, u32 vec, u64 handler, u32 ist, u32 dpl) {
    u64 lo = (handler & 0xffff) | (u64)KR_KERNEL_CS << 16 | (u64)ist << 32 | (0x8eULL | dpl << 5) << 40 |
             (handler >> 16 & 0xffff) << 48;
    u64 hi = handler >> 32;
    memcpy(idt + vec * 16, &lo, 8);
    memcpy(idt + vec * 16 + 8, &hi, 8);
}

void kr_x86_shared_pages(u8 *sys) {
    u64 *gdt = (u64 *)(sys + KR_SYS_GDT);
    gdt[KR_KERNEL_CS / 8] = DESC_CODE64(0);
    gdt[KR_KERNEL_SS / 8] = DESC_DATA(0);
    gdt[KR_USER_SS / 8] = DESC_DATA(3);
    gdt[KR_USER_CS / 8] = DESC_CODE64(3);
    for (u32 v = 0; v < KR_VECTORS; v++) {
        u8 *stub = sys + KR_SYS_EXC + v * 16;
        stub[0] = 0xe6; /* out %al, $KR_PORT */
        stub[1] = KR_PORT;
        stub[2] = 0xf4; /* hlt: never reached, the monitor always sets RIP */
        /* INT3 and INTO are instructions of ring 3: their gates must have DPL 3 (SDM vol. 3, 6.12.1.1). */
        gate(sys + KR_SYS_IDT, v, KR_SYS_BASE + KR_SYS_EXC + v * 16, v == VEC_DF ? IST_DF : IST_EXC,
             v == VEC_BP || v == VEC_OF ? 3 : 0);
    }
    sys[KR_SYS_STUB] = 0xe6; /* SYSCALL lands here: out %al, $KR_PORT */
    sys[KR_SYS_STUB + 1] = KR_PORT;
    sys[KR_SYS_STUB + 2] = 0x0f; /* ud2: never reached */
    sys[KR_SYS_STUB + 3] = 0x0b;
}

void kr_x86_tss(u8 *tss, u32 idx, int open) {
    u64 area = KR_SYS_BASE + KR_VCPU_AREA(idx);
    u64 ist = area + KR_VCPU_IST + KR_PAGE, df = area + KR_VCPU_DF + KR_PAGE;
    memset(tss, 0, 104);
    memcpy(tss + 4, &ist, 8);  /* RSP0 */
    memcpy(tss + 36, &ist, 8); /* IST1 */
    memcpy(tss + 44, &df, 8);  /* IST2 */
    u16 iomap = 104;
    memcpy(tss + 102, &iomap, 2);
    /* The I/O bitmap denies all ports. It allows the one port if SYSCALL stays in ring 3 (`open`). The TSS limit
     * lies behind the byte of ones that must follow the bitmap (SDM vol. 1, 19.5.2). */
    memset(tss + 104, 0xff, 0x7e / 8 + 2);
    if (open)
        tss[104 + KR_PORT / 8] = (u8) ~(1u << (KR_PORT % 8));
}

static struct kvm_segment segment(u16 sel, u8 type, u8 dpl, u8 code) {
    return (struct kvm_segment){.selector = sel,
                                .limit = 0xffffffff,
                                .type = type,
                                .present = 1,
                                .dpl = dpl,
                                .db = !code,
                                .s = 1,
                                .l = code,
                                .g = 1};
}

void kr_x86_user_segments(struct kvm_sregs *s) {
    s->cs = segment(KR_USER_CS, 11, 3, 1);
    s->ss = segment(KR_USER_SS, 3, 3, 0);
}

void kr_x86_sregs(struct kvm_sregs *s, u64 cr3, u32 idx, u64 cr4_extra) {
    u64 apic_base = s->apic_base;
    memset(s, 0, sizeof *s);
    s->apic_base = apic_base;
    kr_x86_user_segments(s);
    s->ds = s->es = s->fs = s->gs = (struct kvm_segment){.unusable = 1, .type = 3, .s = 1, .dpl = 3};
    s->ldt = (struct kvm_segment){.unusable = 1, .type = 2};
    s->tr = (struct kvm_segment){.base = KR_SYS_BASE + KR_VCPU_AREA(idx) + KR_VCPU_TSS,
                                 .limit = 104 + 0x7e / 8 + 1,
                                 .selector = KR_TSS_SEL,
                                 .type = 11,
                                 .present = 1};
    s->gdt.base = KR_SYS_BASE + KR_SYS_GDT;
    s->gdt.limit = 0x3f;
    s->idt.base = KR_SYS_BASE + KR_SYS_IDT;
    s->idt.limit = KR_VECTORS * 16 - 1;
    s->cr0 = 0x80050033; /* PE MP ET NE WP AM PG */
    s->cr3 = cr3;
    s->cr4 = 0x620 | cr4_extra; /* PAE OSFXSR OSXMMEXCPT */
    s->efer = 0xd01;            /* SCE LME LMA NXE */
}
