/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's vDSO: a whole ELF shared object, written by hand so that it needs no link step. It is one page of the monitor's
 * read-only data. machine/vdso.c maps a copy into the payload, behind the time page (vdso_page.h).
 *
 * The functions call no other function and push nothing, so one entry of unwind information serves them all. If the page does not
 * have the answer, a function makes the system call.
 */
#include "vdso_page.h"

#define SYS_gettimeofday 96
#define SYS_time 201
#define SYS_clock_gettime 228
#define SYS_clock_getres 229
#define SYS_getcpu 309

    .section .rodata.kr_vdso, "a", @progbits
    .balign 4096
    .globl kr_vdso_image, kr_vdso_image_end
    .hidden kr_vdso_image, kr_vdso_image_end
kr_vdso_image:
image:
#define OFF(label) ((label) - image)

/* ---- ELF header ---- */
    .byte 0x7f, 'E', 'L', 'F', 2, 1, 1, 0
    .quad 0
    .short 3, 62                    /* ET_DYN, EM_X86_64 */
    .long 1
    .quad 0                         /* no entry */
    .quad OFF(phdrs), OFF(shdrs)
    .long 0
    .short 64, 56, 4, 64, 3, 2      /* sizes and counts; section names are in section 2 */

phdrs:
    .long 1, 5                      /* PT_LOAD, R X */
    .quad 0, 0, 0, OFF(end), OFF(end), 4096
    .long 2, 4                      /* PT_DYNAMIC */
    .quad OFF(dynamic), OFF(dynamic), OFF(dynamic), dynamic_end - dynamic, dynamic_end - dynamic, 8
    .long 4, 4                      /* PT_NOTE */
    .quad OFF(note), OFF(note), OFF(note), note_end - note, note_end - note, 4
    .long 0x6474e550, 4             /* PT_GNU_EH_FRAME */
    .quad OFF(eh_hdr), OFF(eh_hdr), OFF(eh_hdr), eh_hdr_end - eh_hdr, eh_hdr_end - eh_hdr, 4

/* ---- Symbols: each function under two names, version LINUX_2.6 ---- */
    .balign 8
dynsym:
    .quad 0, 0, 0
    .macro symbol name, bind, func
    .long \name - dynstr
    .byte \bind << 4 | 2, 0         /* STT_FUNC, default visibility */
    .short 1                        /* section .text */
    .quad \func - image, \func\()_end - \func
    .endm
    symbol n_v_clock_gettime, 1, f_clock_gettime
    symbol n_clock_gettime, 2, f_clock_gettime
    symbol n_v_gettimeofday, 1, f_gettimeofday
    symbol n_gettimeofday, 2, f_gettimeofday
    symbol n_v_time, 1, f_time
    symbol n_time, 2, f_time
    symbol n_v_getcpu, 1, f_getcpu
    symbol n_getcpu, 2, f_getcpu
    symbol n_v_clock_getres, 1, f_clock_getres
    symbol n_clock_getres, 2, f_clock_getres
#define SYMS 11

/* Right behind the symbols: many readers take that for the number of symbols. */
dynstr:
    .byte 0
n_soname: .asciz "linux-vdso.so.1"
n_version: .asciz "LINUX_2.6"
n_v_clock_gettime: .asciz "__vdso_clock_gettime"
n_clock_gettime: .asciz "clock_gettime"
n_v_gettimeofday: .asciz "__vdso_gettimeofday"
n_gettimeofday: .asciz "gettimeofday"
n_v_time: .asciz "__vdso_time"
n_time: .asciz "time"
n_v_getcpu: .asciz "__vdso_getcpu"
n_getcpu: .asciz "getcpu"
n_v_clock_getres: .asciz "__vdso_clock_getres"
n_clock_getres: .asciz "clock_getres"
dynstr_end:
    .balign 8

hash:                               /* one bucket: the chain is the table */
    .long 1, SYMS, 1
    .long 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0
    .balign 8
gnu_hash:                           /* one bucket, a Bloom filter that lets everything through; checked by tests/native/test_vdso.c */
    .long 1, 1, 1, 6
    .quad -1
    .long 1
    .long 0x6e43a318, 0x71dd557e, 0xb01bca00, 0xe6854b86, 0x821e8e0c
    .long 0x7c9e7894, 0x6562b026, 0xff87586c, 0x68308f52, 0x9e9a10db

    .balign 2
versym:
    .short 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2
    .balign 8
verdef:
    .short 1, 1, 1, 1               /* version 1: the file itself */
    .long 0xdeebfa1, 20, 28
    .long n_soname - dynstr, 0
    .short 1, 0, 2, 1               /* version 2: LINUX_2.6 */
    .long 0x3ae75f6, 20, 0
    .long n_version - dynstr, 0

    .balign 8
dynamic:
    .quad 14, n_soname - dynstr     /* DT_SONAME */
    .quad 4, OFF(hash)
    .quad 0x6ffffef5, OFF(gnu_hash)
    .quad 5, OFF(dynstr)
    .quad 10, dynstr_end - dynstr
    .quad 6, OFF(dynsym)
    .quad 11, 24
    .quad 0x6ffffff0, OFF(versym)
    .quad 0x6ffffffc, OFF(verdef)
    .quad 0x6ffffffd, 2
    .quad 0, 0
dynamic_end:

note:
    .long 5, 4, 0                   /* "krun", type 0: version of this image */
    .asciz "krun"
    .balign 4
    .long 1
note_end:

/* ---- Unwind information: CFA = rsp + 8, return address at CFA - 8, everywhere ---- */
    .balign 8
eh_frame:
cie:
    .long cie_end - cie - 4, 0
    .byte 1
    .asciz "zR"
    .byte 1, 0x78, 16, 1, 0x1b      /* code 1, data -8, return register 16; pointers pc-relative, 4 bytes */
    .byte 0x0c, 7, 8, 0x90, 1       /* def_cfa rsp+8; offset(16, 1) */
    .balign 8, 0
cie_end:
fde:
    .long fde_end - fde - 4, . - cie
    .long text - ., text_end - text
    .byte 0
    .balign 8, 0
fde_end:
    .long 0
eh_hdr:
    .byte 1, 0x1b, 3, 0x3b
    .long eh_frame - ., 1, text - eh_hdr, fde - eh_hdr
eh_hdr_end:

/* ---- Section headers: for debuggers only ---- */
    .balign 8
shdrs:
    .fill 64, 1, 0
    .long s_text - shstr, 1         /* .text, PROGBITS, ALLOC | EXECINSTR */
    .quad 6, OFF(text), OFF(text), text_end - text
    .long 0, 0
    .quad 16, 0
    .long s_shstr - shstr, 3
    .quad 0, 0, OFF(shstr), shstr_end - shstr
    .long 0, 0
    .quad 1, 0
shstr:
    .byte 0
s_text: .asciz ".text"
s_shstr: .asciz ".shstrtab"
shstr_end:

/* ---- Code ---- */
    .balign 16
text:
/*
 * Reads the page for the clock in %edi. rax: ns of that clock; jumps to \slow if the page does not have them. Clobbers rcx rdx r8 r9
 * r10. x86 does not reorder loads with each other; lfence keeps RDTSC behind the first read of seq.
 */
    .macro read_clock slow
    lea image - 4096(%rip), %r8
    mov KR_VT_SEQ(%r8), %r9d
    test $1, %r9b
    jnz \slow
    mov KR_VT_OFFSET(%r8, %rdi, 8), %r10
    lfence
    rdtsc
    shl $32, %rdx
    or %rdx, %rax
    sub KR_VT_BASE_TSC(%r8), %rax
    cmp KR_VT_LIMIT(%r8), %rax
    jae \slow
    imul KR_VT_MULT(%r8), %rax
    mov KR_VT_SHIFT(%r8), %ecx
    shr %cl, %rax
    add KR_VT_BASE_NS(%r8), %rax
    add %r10, %rax
    cmp KR_VT_SEQ(%r8), %r9d
    jne \slow
    .endm

f_clock_gettime:
    mov %edi, %edi
    cmp $KR_VT_CLOCKS, %edi
    jae 9f
    mov $KR_VT_SERVED, %eax
    bt %edi, %eax
    jnc 9f
    read_clock 8f
    xor %edx, %edx
    mov $1000000000, %ecx
    div %rcx
    mov %rax, (%rsi)
    mov %rdx, 8(%rsi)
    xor %eax, %eax
    ret
8:
9:  mov $SYS_clock_gettime, %eax
    syscall
    ret
f_clock_gettime_end:

    .balign 16
f_gettimeofday:
    test %rsi, %rsi
    jnz 9f
    test %rdi, %rdi
    jz 9f
    mov %rdi, %r11
    xor %edi, %edi
    read_clock 8f
    xor %edx, %edx
    mov $1000000000, %ecx
    div %rcx
    mov %rax, (%r11)
    mov %edx, %eax
    xor %edx, %edx
    mov $1000, %ecx
    div %ecx
    mov %rax, 8(%r11)
    xor %eax, %eax
    ret
8:  mov %r11, %rdi
9:  mov $SYS_gettimeofday, %eax
    syscall
    ret
f_gettimeofday_end:

    .balign 16
f_time:                             /* time(2) and the clock of files lag the fine clock by up to a tick (10 ms at HZ=100): */
    mov %rdi, %r11
    xor %edi, %edi
    read_clock 8f
    xor %edx, %edx
    mov $1000000000, %ecx
    div %rcx
    cmp $10000000, %edx             /* ... so just after a full second the kernel is asked */
    jb 8f
    test %r11, %r11
    jz 1f
    mov %rax, (%r11)
1:  ret
8:  mov %r11, %rdi
    mov $SYS_time, %eax
    syscall
    ret
f_time_end:

    .balign 16
f_getcpu:                           /* RDPID and RDTSCP are of no use: TSC_AUX is the host's on some back ends only */
    mov $SYS_getcpu, %eax
    syscall
    ret
f_getcpu_end:

    .balign 16
f_clock_getres:
    cmp $KR_VT_CLOCKS, %edi
    jae 9f
    mov $KR_VT_SERVED & ~0x60, %eax /* the fine clocks: 1 ns */
    bt %edi, %eax
    jnc 9f
    test %rsi, %rsi
    jz 1f
    movq $0, (%rsi)
    movq $1, 8(%rsi)
1:  xor %eax, %eax
    ret
9:  mov $SYS_clock_getres, %eax
    syscall
    ret
f_clock_getres_end:
text_end:
end:
    .balign 4096, 0
kr_vdso_image_end:

    .section .note.GNU-stack, "", @progbits
