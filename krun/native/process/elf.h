/* SPDX-License-Identifier: Apache-2.0
 *
 * ELF64 programs (System V ABI, AMD64 supplement), loaded as fs/binfmt_elf.c does it.
 */
#ifndef KR_ELF_H
#define KR_ELF_H

#include "../machine/mm.h"
#include <linux/elf.h>

#define KR_ELF_PHDRS 64 /* a file with more is refused; toolchains make about a dozen */

/* A checked header. No field needs a further check against overflow. */
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

/* kr_elf_header checks the file header in hdr[n], the first bytes of the file, and sets e->phoff and
 * e->phnum. kr_elf_phdrs checks the program headers in ph (e->phnum * 56 bytes) and fills the rest of *e. 0;
 * -ENOEXEC with the reason in *why. Pure. */
int kr_elf_header(const u8 *hdr, size_t n, struct kr_elf *e, const char **why);
int kr_elf_phdrs(const u8 *ph, struct kr_elf *e, const char **why);

/* Reads and checks an open file. */
int kr_elf_read(int fd, struct kr_elf *e, const char **why);

/* The number to add to the addresses of the file so that the program begins at base, rounded down to the
 * program's alignment; 0 for ET_EXEC, which stays at its linked address. Modulo 2^64; kr_elf_map checks the
 * result. Pure. */
u64 kr_elf_bias(const struct kr_elf *e, u64 base);

/* Maps the segments at their addresses plus bias. 0; -ENOMEM if one of them would not lie in the window (then
 * nothing is mapped); another -errno (then some segments may be mapped). */
long kr_elf_map(struct kr_mm *mm, int fd, const struct kr_elf *e, u64 bias);

#endif
