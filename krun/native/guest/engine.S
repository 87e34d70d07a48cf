/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's code that completes system calls without an exit. It is position-independent, lies in the stub page that
 * all vCPUs share, and reaches the vCPU's own pages by RIP (callpage.h). LSTAR leads to `entry`; a call that is not
 * completed goes on to the exit at the start of the page.
 *
 * The code runs in ring 3. Where SYSCALL has entered ring 0 (VMX, SVM), it does nothing but exit, because it uses
 * memory that ring 3 may write, and later ways use addresses of the payload's.
 *
 * It keeps what SYSCALL keeps: all registers but rax, and rcx and r11, which have the return address and the flags. It
 * stores nothing below the payload's rsp. It may be interrupted at each instruction, and is never continued: the
 * monitor finds out by RIP alone how far it is (kr_engine_place in machine/callpage.c), in the order of addresses:
 *
 *   from `entry` on        the registers are those of the call
 *   from `r11_saved` on    r11 is in the call page
 *   from `rax_saved` on    rax, too
 *   from `regs_saved` on   rcx, rdx, rsi, rdi, r8, r9, r10, too
 *   from `post` to `posted` the call is complete, but for one store (engine_file.inc)
 *   from `after` to `end`  the call is complete, its result is in the call page
 *
 * Behind it is the way of patched sites (engine_patched.inc), with an order of its own.
 */
#include "callpage.h"
#include "patched.h"
#include "socketpage.h"

    .section .rodata.kr_engine, "a", @progbits
    .balign 16
    .globl kr_engine, kr_engine_r11_saved, kr_engine_rax_saved, kr_engine_regs_saved, kr_engine_after, kr_engine_code_end
    .globl kr_engine_post, kr_engine_posted
    .hidden kr_engine, kr_engine_r11_saved, kr_engine_rax_saved, kr_engine_regs_saved, kr_engine_after, kr_engine_code_end
    .hidden kr_engine_post, kr_engine_posted

#define CALL(off) kr_engine + KR_EO_CALL + (off)(%rip)
#define FACT(off) kr_engine + KR_EO_FACT + (off)(%rip)
#define SAVE(reg) CALL(KR_CP_SAVE + 8 * KR_SAVE_##reg)

/* Returns to the payload. The result is in the call page, the flags are in r11, the address is in rcx. SAHF sets SF ZF
 * AF PF CF; OF (bit 11, so bit 3 of the second byte) comes from the addition. */
    .macro return_to_payload
    mov %r11d, %eax
    xchg %al, %ah
    and $8, %al
    add $0x78, %al
    sahf
    mov CALL(KR_CP_RESULT), %rax
    jmp *%rcx
    .endm

kr_engine:
    out %al, $0x7e                  /* KR_PORT */
    ud2
    .org kr_engine + KR_EO_ENTRY, 0xcc
entry:
    cmpl $0, FACT(KR_FP_ON)
    je kr_engine
    mov %r11, SAVE(R11)
kr_engine_r11_saved:
    /* Never from memory, which another thread could change. */
    mov %cs, %r11d
    test $3, %r11b
    mov SAVE(R11), %r11
    jz kr_engine
    test $KR_LOCAL_FLAGS, %r11d
    jnz kr_engine
    cmp $KR_LOCAL_CALLS, %eax       /* the kernel reads eax only */
    jae kr_engine
    movabs $KR_OWN_BASE, %r11       /* a patched site has left, so the call is an exit: rcx is not its return address */
    add $kr_engine_left - kr_engine, %r11
    cmp %r11, %rcx
    mov SAVE(R11), %r11
    je kr_engine
    mov %rax, SAVE(RAX)
kr_engine_rax_saved:
    mov %eax, %eax
    lea FACT(0), %r11
    movzbl KR_FP_WAY(%r11, %rax), %eax
    mov %eax, %r11d
    and $KR_WAY_MASK, %eax
    jz decline
    decl CALL(KR_PP_SAMPLE)
    jz decline
dispatch:
    shr $KR_WAY_SHIFT, %r11d
    cmp $1, %eax                    /* KR_WAY_FACT */
    je fact
    jmp more
decline:
    mov SAVE(RAX), %rax
    mov SAVE(R11), %r11
    jmp kr_engine

/* A number. r11: which. */
fact:
    lea FACT(KR_FP_FACT), %rax
    mov (%rax, %r11, 8), %rax
    mov %rax, CALL(KR_CP_RESULT)
    incq CALL(KR_CP_DONE + 8 * 1)
    mov SAVE(R11), %r11
    return_to_payload

/* Ways that need more registers save them first. */
more:
    mov %rcx, SAVE(RCX)
    mov %rdx, SAVE(RDX)
    mov %rsi, SAVE(RSI)
    mov %rdi, SAVE(RDI)
    mov %r8, SAVE(R8)
    mov %r9, SAVE(R9)
    mov %r10, SAVE(R10)
kr_engine_regs_saved:
    cmp $2, %eax                    /* KR_WAY_ACTION */
    je action
    cmp $4, %eax                    /* KR_WAY_READ */
    je read
    cmp $5, %eax                    /* KR_WAY_QUEUE */
    je queue
    cmp $6, %eax                    /* KR_WAY_FILE */
    je file
restore_and_decline:
    mov SAVE(RDX), %rdx
    mov SAVE(RSI), %rsi
    mov SAVE(RDI), %rdi
    mov SAVE(R8), %r8
    mov SAVE(R9), %r9
    mov SAVE(R10), %r10
    mov SAVE(RCX), %rcx
    jmp decline

#include "engine_read.inc"
#include "engine_queue.inc"
#include "engine_file.inc"
#include "engine_accepted.inc"
#include "engine_action.inc"

/* Ways that change something end here, by one store. */
commit:
    mov %rax, (%r8)
kr_engine_after:
    mov SAVE(RDX), %rdx
    mov SAVE(RSI), %rsi
    mov SAVE(RDI), %rdi
    mov SAVE(R8), %r8
    mov SAVE(R9), %r9
    mov SAVE(R10), %r10
    mov SAVE(RCX), %rcx
    mov SAVE(R11), %r11
    return_to_payload
kr_engine_code_end:
#include "engine_patched.inc"

    .org kr_engine + 4096           /* an error if the code does not fit into the stub page */

    .section .note.GNU-stack, "", @progbits
