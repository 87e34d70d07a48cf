/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry of the monitor. At the entry the kernel's stack holds argc, argv, envp and auxv.
 */
    .text
    .globl _start
    .type _start, @function
_start:
    xor %ebp, %ebp
    mov %rsp, %rdi
    and $-16, %rsp
    call kr_main
    ud2
    .size _start, . - _start
    .section .note.GNU-stack, "", @progbits
