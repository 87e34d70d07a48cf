/* SPDX-License-Identifier: Apache-2.0
 *
 * The ELF loader. The file is hostile: its headers are checked first, with all arithmetic bounded before use,
 * and mapped afterwards. No state.
 */
#include "elf.h"
#include "../machine/usercopy.h"
#include "process.h"
#include <linux/mman.h>
#include <linux/fcntl.h>

static int fail(const char **why, const char *text, int err) {
    *why = text;
    return err;
}

int kr_elf_header(const u8 *hdr, size_t n, struct kr_elf *e, const char **why) {
    struct elf64_hdr h;
    memset(e, 0, offsetof(struct kr_elf, load));
    if (n < 20 || memcmp(hdr, "\177ELF", 4) != 0)
        return fail(why, "neither an ELF program nor a script with #!", -ENOEXEC);
    memcpy(&h, hdr, KR_MIN(n, sizeof h));
    if (h.e_ident[4] != 2)
        return fail(why, "a 32-bit program: krun runs 64-bit x86-64 programs only", -ENOEXEC);
    if (h.e_machine == EM_AARCH64)
        return fail(why, "a program for aarch64: krun runs x86-64 programs only", -ENOEXEC);
    if (h.e_ident[5] != 1 || h.e_machine != EM_X86_64)
        return fail(why, "a program for another processor: krun runs x86-64 programs only", -ENOEXEC);
    if (n < sizeof h)
        return fail(why, "a truncated ELF header", -ENOEXEC);
    if (h.e_type != ET_EXEC && h.e_type != ET_DYN)
        return fail(why, "an ELF file that is no program", -ENOEXEC);
    if (h.e_phentsize != sizeof(struct elf64_phdr) || !h.e_phnum || h.e_phnum > KR_ELF_PHDRS)
        return fail(why, "an ELF file with unusable program headers", -ENOEXEC);
    e->type = h.e_type;
    e->entry = h.e_entry;
    e->phoff = h.e_phoff;
    e->phnum = h.e_phnum;
    return 0;
}

int kr_elf_phdrs(const u8 *ph, struct kr_elf *e, const char **why) {
    e->min = ~0ULL;
    e->align = KR_PAGE;
    for (u32 i = 0; i < e->phnum; i++) {
        struct elf64_phdr p;
        memcpy(&p, ph + i * sizeof p, sizeof p);
        if (p.p_type == PT_GNU_STACK)
            e->stack_exec = (p.p_flags & PF_X) != 0;
        if (p.p_type == PT_INTERP && !e->interp_len) {
            if (p.p_filesz < 2 || p.p_filesz > 4096 || p.p_offset >> 62)
                return fail(why, "an ELF file with an unusable interpreter path", -ENOEXEC);
            e->interp_off = p.p_offset;
            e->interp_len = p.p_filesz;
        }
        if (p.p_type != PT_LOAD || !p.p_memsz)
            continue;
        if (!p.p_filesz)
            p.p_offset = p.p_vaddr & (KR_PAGE - 1); /* elf_load() does not look at it */
        if (p.p_filesz > p.p_memsz || p.p_vaddr >= KR_WINDOW_END || p.p_memsz > KR_WINDOW_END - p.p_vaddr ||
            p.p_offset >> 62 || p.p_filesz >> 62 || ((p.p_vaddr ^ p.p_offset) & (KR_PAGE - 1)))
            return fail(why, "an ELF file with an unusable segment", -ENOEXEC);
        if (p.p_align > e->align && p.p_align <= 1ULL << 30 && !(p.p_align & (p.p_align - 1)))
            e->align = p.p_align;
        e->min = KR_MIN(e->min, KR_PAGE_DOWN(p.p_vaddr));
        e->max = KR_MAX(e->max, KR_PAGE_UP(p.p_vaddr + p.p_memsz));
        if (e->phoff >= p.p_offset && e->phoff - p.p_offset < p.p_filesz)
            e->phdr_vaddr = p.p_vaddr + (e->phoff - p.p_offset);
        e->load[e->nload++] = p;
    }
    if (!e->nload)
        return fail(why, "an ELF file without segments to load", -ENOEXEC);
    if (e->type == ET_EXEC && e->min < KR_WINDOW_START)
        return fail(why, "a program linked below the lowest address that may be mapped", -ENOEXEC);
    return 0;
}

int kr_elf_read(int fd, struct kr_elf *e, const char **why) {
    u8 buf[KR_ELF_PHDRS * sizeof(struct elf64_phdr)];
    long n = kr_sys4(__NR_pread64, fd, buf, 64, 0);
    if (n < 0)
        return fail(why, "reading the program", (int)n);
    int r = kr_elf_header(buf, (size_t)n, e, why);
    if (r < 0)
        return r;
    long want = e->phnum * (long)sizeof(struct elf64_phdr);
    n = kr_sys4(__NR_pread64, fd, buf, want, e->phoff);
    if (n != want)
        return fail(why, "an ELF file with truncated program headers", n < 0 ? (int)n : -ENOEXEC);
    return kr_elf_phdrs(buf, e, why);
}

u64 kr_elf_bias(const struct kr_elf *e, u64 base) {
    return e->type == ET_DYN ? (base & ~(e->align - 1)) - (e->min & ~(e->align - 1)) : 0;
}

long kr_elf_map(struct kr_mm *mm, int fd, const struct kr_elf *e, u64 bias) {
    /* The headers were checked with the addresses of the file. Here the addresses with the bias are checked. */
    if (e->min + bias < KR_WINDOW_START || e->min + bias >= KR_WINDOW_END ||
        e->max - e->min > KR_WINDOW_END - (e->min + bias))
        return -ENOMEM;
    /* In the order of the file: a later segment replaces what it overlaps (elf_load() in fs/binfmt_elf.c). */
    for (u32 i = 0; i < e->nload; i++) {
        const struct elf64_phdr *p = &e->load[i];
        u32 prot = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
                   (p->p_flags & PF_X ? PROT_EXEC : 0);
        u64 start = p->p_vaddr + bias, page = KR_PAGE_DOWN(start);
        u64 file_end = start + p->p_filesz, mem_end = start + p->p_memsz;
        if (p->p_filesz) {
            long r = kr_mm_mmap(mm, page, file_end - page, prot, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE, fd,
                                KR_PAGE_DOWN(p->p_offset));
            if (r < 0)
                return r;
        }
        /* Without bytes of the file the whole first page is zero, also below the segment's start. */
        u64 zero_end = p->p_filesz ? KR_PAGE_UP(file_end) : page;
        if (p->p_filesz && mem_end > file_end && (file_end & (KR_PAGE - 1)) && (prot & PROT_WRITE)) {
            static const u8 zero[KR_PAGE];
            if (kr_copy_out(file_end, zero, zero_end - file_end) < 0)
                return -EFAULT;
        }
        if (KR_PAGE_UP(mem_end) > zero_end) {
            long r = kr_mm_anon(mm, zero_end, KR_PAGE_UP(mem_end) - zero_end, prot, 0);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int kr_elf_classify(int fd, const char **why) {
    struct kr_elf e;
    u8 head[2];
    long n = kr_sys4(__NR_pread64, fd, head, 2, 0);
    if (n == 2 && head[0] == '#' && head[1] == '!')
        return 1;
    return kr_elf_read(fd, &e, why);
}
