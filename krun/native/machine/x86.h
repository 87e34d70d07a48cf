/* SPDX-License-Identifier: Apache-2.0
 *
 * x86-64 machine state as data: descriptors, stubs, control registers (AMD APM vol. 2; Intel SDM vol. 3).
 */
#ifndef KR_X86_H
#define KR_X86_H

#include "vm.h"

/* Flags of RFLAGS that the payload may have: CF PF AF ZF SF TF DF OF NT RF AC ID; never IOPL, VM. */
#define KR_FLAGS_USER 0x254dd5ULL
/* What SYSCALL clears: TF DF IOPL NT AC. Not IF: no interrupt is injected, and window.h needs IF. */
#define KR_SFMASK 0x47500u
#define KR_FLAGS_FIXED 0x202ULL /* IF, and bit 1, which is always one */

#define KR_VECTORS 32
enum {
    VEC_DE = 0,
    VEC_DB = 1,
    VEC_BP = 3,
    VEC_OF = 4,
    VEC_BR = 5,
    VEC_UD = 6,
    VEC_NM = 7,
    VEC_DF = 8,
    VEC_TS = 10,
    VEC_NP = 11,
    VEC_SS = 12,
    VEC_GP = 13,
    VEC_PF = 14,
    VEC_MF = 16,
    VEC_AC = 17,
    VEC_XM = 19
};
#define KR_VECTORS_WITH_ERROR 0x60227d00u /* 8, 10-14, 17, 21, 29, 30 */

/* Fills GDT, IDT and exception stubs in the shared part of the system area. */
void kr_x86_shared_pages(u8 *sys);
/* Fills the TSS of vCPU idx. open: whether ring 3 may write to KR_PORT. */
void kr_x86_tss(u8 *tss, u32 idx, int open);
/* Sets the special registers with which vCPU idx starts. apic_base stays as it is in *s. */
void kr_x86_sregs(struct kvm_sregs *s, u64 cr3, u32 idx, u64 cr4_extra);
/* Loads CS and SS with the flat user segments. */
void kr_x86_user_segments(struct kvm_sregs *s);

#endif
