/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a program that process/find.c has found: maps the program and its ELF interpreter into a fresh address space,
 * maps the vDSO and builds the first stack, as load_elf_binary() in fs/binfmt_elf.c does.
 *
 * State: none. No locks are held by the caller; mm->lock is taken where the map changes.
 */
#include "exec.h"
#include "elf.h"
#include "process.h"
#include "../machine/vdso.h"
#include "../machine/warm.h"

static void add_name(u64 *value, u64 v, int is_min) {
    if (!*value || (is_min ? v < *value : v > *value))
        *value = v;
}

long kr_load(struct kr_mm *mm, const struct kr_program *p, char **argv, char **envp, const u64 *auxv,
             struct kr_start *start, const char **why) {
    struct kr_elf *e = kr_alloc(sizeof *e);
    if (!e)
        return -ENOMEM;
    long r = kr_elf_read(p->fd, e, why);
    if (r < 0)
        goto out;
    *why = "mapping the program";
    /* As in fs/binfmt_elf.c: the program lies low, its mappings lie high; the random start keeps p_align. */
    u64 bias = kr_elf_bias(e, 0x2aaa00000000ULL + KR_PAGE * kr_mm_random(1ULL << 28));
    r = kr_elf_map(mm, p->fd, e, bias);
    if (r < 0)
        goto out;
    for (u32 i = 0; i < e->nload; i++) {
        const struct elf64_phdr *ph = &e->load[i];
        u64 s = ph->p_vaddr + bias, end = s + ph->p_filesz;
        if (ph->p_flags & PF_X) {
            add_name(&mm->code_start, s, 1);
            add_name(&mm->code_end, end, 0);
        } else if (ph->p_flags & PF_W) {
            add_name(&mm->data_start, s, 1);
            add_name(&mm->data_end, end, 0);
        }
    }
    if (!mm->code_start) /* no executable segment: a place of the program's for PR_SET_MM_MAP */
        mm->code_start = mm->code_end = e->min + bias;
    mm->brk_start = mm->brk_end = KR_PAGE_UP(e->max + bias) + KR_PAGE * kr_mm_random(2048);
    struct kr_stack_args sa = {.argv = argv,
                               .envp = envp,
                               .execfn = p->path,
                               .host_auxv = auxv,
                               .phdr = e->phdr_vaddr ? e->phdr_vaddr + bias : 0,
                               .phnum = e->phnum,
                               .entry = e->entry + bias,
                               .exec = e->stack_exec};
    if (p->nwords)
        sa.execfn = p->words[p->nwords - 1];
    start->entry = sa.entry;
    if (e->interp_len) {
        *why = "opening the program's ELF interpreter";
        /* No interpreter was found when the program was judged: the file has changed since. */
        r = p->interp < 0 ? -ELIBBAD : kr_elf_read(p->interp, e, why);
        if (r >= 0) {
            *why = "mapping the program's ELF interpreter";
            kr_lock(&mm->lock);
            u64 at = kr_mm_find_free(mm, e->max - e->min, e->align);
            kr_unlock(&mm->lock);
            u64 ibias = e->type == ET_DYN ? at - e->min : 0;
            r = at ? kr_elf_map(mm, p->interp, e, ibias) : -ENOMEM;
            sa.base = e->min + ibias;
            start->entry = e->entry + ibias;
        }
        if (r < 0)
            goto out;
    }
    mm->vdso = sa.vdso = kr_vdso_map(mm);
    *why = "building the program's stack";
    r = kr_stack_build(mm, &sa, &start->sp);
    if (!r) {
        kr_lock(&mm->lock);
        kr_warm_stack(mm, start->sp);
        kr_unlock(&mm->lock);
    }
out:
    kr_free(e, sizeof *e);
    return r;
}
