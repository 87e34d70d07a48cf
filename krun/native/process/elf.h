/* SPDX-License-Identifier: Apache-2.0
 * ELF64 programs (System V ABI, AMD64 supplement; fs/binfmt_elf.c for what Linux makes of them). */
#ifndef KR_ELF_H
#define KR_ELF_H

#include "../machine/mm.h"
#include <linux/elf.h>

#define KR_ELF_PHDRS 64 /* more is refused; toolchains make about a dozen */

/* A checked header. Pure data: no field needs a further check against overflow. */
struct kr_elf {
    u16 type; /* ET_EXEC or ET_DYN */
    u16 nload;
    u64 entry, phoff;
    u16 phnum;
    u64 min, max;               /* page-rounded span of the PT_LOADs, unrelocated */
    u64 align;                  /* largest p_align of a PT_LOAD, at least a page */
    u64 interp_off, interp_len; /* 0: none */
    int stack_exec;
    u64 phdr_vaddr; /* where the program headers are in memory, 0: not loaded */
    struct elf64_phdr load[KR_ELF_PHDRS];
};

/* Checks the file header in hdr[n] (n >= 64 bytes of file start) and the program headers in ph (phnum * 56
 * bytes, or NULL to check the header only). 0; -ENOEXEC, -EINVAL, -ELIBBAD with the reason in *why. Pure. */
int kr_elf_header(const u8 *hdr, size_t n, struct kr_elf *e, const char **why);
int kr_elf_phdrs(const u8 *ph, struct kr_elf *e, const char **why);

/* Reads and checks an open file. */
int kr_elf_read(int fd, struct kr_elf *e, const char **why);

/* What to add to the addresses in the file so that the program begins at base, rounded down to its alignment:
 * 0 for ET_EXEC, which stays where it was linked. Modulo 2^64; kr_elf_map judges the result. Pure. */
u64 kr_elf_bias(const struct kr_elf *e, u64 base);

/* Maps the segments, each bias higher than it says. 0; -ENOMEM where one of them would not lie in the window
 * (nothing is mapped then), or another -errno (some may be). */
long kr_elf_map(struct kr_mm *mm, int fd, const struct kr_elf *e, u64 bias);

#endif
