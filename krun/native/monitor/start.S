/* SPDX-License-Identifier: Apache-2.0
 * Entry of the monitor. The kernel's stack: argc, argv, envp, auxv. */
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
