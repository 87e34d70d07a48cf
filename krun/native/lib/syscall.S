/* SPDX-License-Identifier: Apache-2.0
 *
 * kr_call_intr and the functions that touch guest memory. The host's signal handler (process/hostsig.c) looks at
 * the addresses of their instructions.
 */
#include "offsets.h"

    .text
/*
 * long kr_call_intr(nr, a, b, c, d, e, f)
 *
 * A signal that is caught between kr_intr_begin and the SYSCALL instruction sends the thread to kr_intr_restart. The
 * SYSCALL instruction is included, because the kernel rewinds a call that it wants restarted. So the test sees the
 * signal, or the signal interrupts the call, or it comes after the call: none is lost before a call that blocks.
 */
    .globl kr_call_intr, kr_intr_begin, kr_intr_syscall, kr_intr_restart
    .type kr_call_intr, @function
kr_call_intr:
    mov %rdi, %rax
    mov %rsi, %rdi
    mov %rdx, %rsi
    mov %rcx, %rdx
    mov %r8, %r10
    mov %r9, %r8
    mov 8(%rsp), %r9
kr_intr_begin:
    cmpq $0, %fs:KR_TASK_SIG_CAUGHT /* the 8 bytes include kr_task.asked */
    jne kr_intr_restart
kr_intr_syscall:
    syscall
    ret
kr_intr_restart:
    mov $-512, %rax
    ret
    .size kr_call_intr, . - kr_call_intr

/*
 * long kr_copy_raw(void *dst, const void *src, size_t n)
 * Returns 0; -EFAULT: a byte could not be read or written. After a SIGSEGV or SIGBUS with the instruction pointer in
 * [kr_copy_begin, kr_copy_end) the handler goes on at kr_copy_fault.
 */
    .globl kr_copy_raw, kr_copy_begin, kr_copy_end, kr_copy_fault
    .type kr_copy_raw, @function
kr_copy_raw:
    mov %rdx, %rcx
    xor %eax, %eax
kr_copy_begin:
    rep movsb
kr_copy_end:
    ret
kr_copy_fault:
    mov $-14, %rax
    ret
    .size kr_copy_raw, . - kr_copy_raw

/*
 * long kr_copy_str_raw(char *dst, const char *src, size_t max)
 * Returns the length without NUL; max: the first max bytes have no NUL; -EFAULT.
 */
    .globl kr_copy_str_raw, kr_str_begin, kr_str_end
    .type kr_copy_str_raw, @function
kr_copy_str_raw:
    xor %eax, %eax
1:  cmp %rdx, %rax
    je 2f
kr_str_begin:
    movb (%rsi,%rax), %cl
kr_str_end:
    movb %cl, (%rdi,%rax)
    test %cl, %cl
    je 2f
    inc %rax
    jmp 1b
2:  ret
    .size kr_copy_str_raw, . - kr_copy_str_raw

/*
 * long kr_cas32_raw(u32 *p, u32 old, u32 new, u32 *seen)
 * Compares the guest's word with old and exchanges it, atomically; *seen becomes what it was. 0 or -EFAULT.
 */
    .globl kr_cas32_raw, kr_cas_begin, kr_cas_end
    .type kr_cas32_raw, @function
kr_cas32_raw:
    mov %esi, %eax
    mov %rcx, %r8
kr_cas_begin:
    lock cmpxchgl %edx, (%rdi)
kr_cas_end:
    movl %eax, (%r8)
    xor %eax, %eax
    ret
    .size kr_cas32_raw, . - kr_cas32_raw

/*
 * long kr_add64_raw(u64 *p, u64 n)
 * Adds n to the number at p, atomically. 0 or -EFAULT.
 */
    .globl kr_add64_raw, kr_add_begin, kr_add_end
    .type kr_add64_raw, @function
kr_add64_raw:
kr_add_begin:
    lock addq %rsi, (%rdi)
kr_add_end:
    xor %eax, %eax
    ret
    .size kr_add64_raw, . - kr_add64_raw

/*
 * long kr_touch_raw(u32 *p, long write)
 * Reads the word at p, and with `write` stores the same value again. Returns 0, or the number of the signal that this
 * raises: the handler goes on at kr_touch_end with the number in rax.
 */
    .globl kr_touch_raw, kr_touch_begin, kr_touch_end
    .type kr_touch_raw, @function
kr_touch_raw:
    xor %eax, %eax
    xor %edx, %edx
kr_touch_begin:
    test %eax, (%rdi)
    test %rsi, %rsi
    je kr_touch_end
    lock cmpxchgl %edx, (%rdi)
    xor %eax, %eax
kr_touch_end:
    ret
    .size kr_touch_raw, . - kr_touch_raw

/*
 * long kr_load32_raw(const u32 *p)
 * Returns the word at p, or -EFAULT.
 */
    .globl kr_load32_raw, kr_load_begin, kr_load_end
    .type kr_load32_raw, @function
kr_load32_raw:
kr_load_begin:
    movl (%rdi), %eax
kr_load_end:
    ret
    .size kr_load32_raw, . - kr_load32_raw

    .section .note.GNU-stack, "", @progbits
