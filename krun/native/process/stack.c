/* SPDX-License-Identifier: Apache-2.0
 *
 * The first stack of a program: strings, argc, argv, envp, auxv, in the layout of fs/exec.c and
 * create_elf_tables(). The order of the strings matters to programs that write their title over argv.
 */
#include "exec.h"
#include "../machine/usercopy.h"
#include <linux/auxvec.h>
#include <asm/auxvec.h>
#include <linux/mman.h>
#include <linux/resource.h>

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

static u64 host_aux(const u64 *auxv, u64 type, u64 otherwise) {
    for (; auxv && auxv[0]; auxv += 2)
        if (auxv[0] == type)
            return auxv[1];
    return otherwise;
}

void kr_mm_layout(struct kr_mm *mm) {
    u64 lim[2] = {8ULL << 20, 0};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, 0, lim);
    u64 size = KR_PAGE_UP(KR_MIN(KR_MAX(lim[0], 128ULL << 10), 1ULL << 30));
    if (lim[0] == ~0ULL)
        size = 1ULL << 30;
    /* The kernel counts only the used part of a stack towards RLIMIT_AS. Here the whole area is mapped, so it
     * is kept small against the limit. */
    u64 space[2] = {~0ULL, 0};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_AS, 0, space);
    size = KR_MIN(size, KR_PAGE_UP(KR_MAX(space[0] / 16, 1ULL << 20)));
    /* In the usual case one 64 MiB chunk, and so one memory slot, holds the top of the stack and the start of
     * the mmap area. */
    u64 top =
        KR_WINDOW_END - KR_CHUNK_SIZE * (1 + kr_mm_random(1u << 16)) - KR_PAGE * (1 + kr_mm_random(1024));
    mm->stack_end = top;
    mm->stack_start = top - size;
    mm->mmap_top = mm->stack_start - (1ULL << 20) - KR_PAGE * kr_mm_random(256);
}

static u64 strings_size(char **v, u64 *count) {
    u64 n = 0;
    for (*count = 0; v[*count]; ++*count)
        n += strlen(v[*count]) + 1;
    return n;
}

/* Writes the strings of v upwards from *at and their addresses to *slot. */
static void put_strings(char **v, u64 *at, u64 **slot) {
    for (; *v; v++) {
        size_t n = strlen(*v) + 1;
        memcpy((void *)*at, *v, n);
        *(*slot)++ = *at;
        *at += n;
    }
    *(*slot)++ = 0;
}

long kr_stack_build(struct kr_mm *mm, const struct kr_stack_args *a, u64 *sp) {
    u64 argc, envc;
    u64 argv_size = strings_size(a->argv, &argc), env_size = strings_size(a->envp, &envc);
    u64 fn_size = strlen(a->execfn) + 1;
    u64 need = argv_size + env_size + fn_size + (argc + envc + 64) * 8 + (64 << 10);
    if (mm->stack_end - mm->stack_start < need + (64 << 10))
        mm->stack_start = mm->stack_end - KR_PAGE_UP(need + (64 << 10));
    mm->mmap_top = KR_MIN(mm->mmap_top, mm->stack_start - (1ULL << 20));
    u32 prot = PROT_READ | PROT_WRITE | (a->exec ? PROT_EXEC : 0);
    long r = kr_mm_anon(mm, mm->stack_start, mm->stack_end - mm->stack_start, prot, KR_VMA_STACK);
    if (r < 0)
        return r;

    u64 p = mm->stack_end - 8; /* a null pointer on top, as in the kernel */
    p -= fn_size;
    u64 execfn = p;
    memcpy((void *)p, a->execfn, fn_size);
    p -= env_size;
    mm->env_start = p;
    mm->env_end = p + env_size;
    p -= argv_size;
    mm->arg_start = p;
    mm->arg_end = p + argv_size;
    p = (p - kr_mm_random(512) * 16) & ~15ULL;
    p -= 16;
    u64 platform = p;
    memcpy((void *)p, "x86_64", 7);
    p -= 16;
    u64 random = p;
    kr_sys3(__NR_getrandom, p, 16, 0);

    const u64 *h = a->host_auxv;
    u64 aux[48], n = 0;
#define AUX(type, value) (aux[n++] = (type), aux[n++] = (value))
    if (a->vdso)
        AUX(AT_SYSINFO_EHDR, a->vdso);
    AUX(AT_MINSIGSTKSZ, host_aux(h, AT_MINSIGSTKSZ, 3632));
    AUX(AT_HWCAP, host_aux(h, AT_HWCAP, 0));
    AUX(AT_PAGESZ, KR_PAGE);
    AUX(AT_CLKTCK, host_aux(h, AT_CLKTCK, 100));
    AUX(AT_PHDR, a->phdr);
    AUX(AT_PHENT, 56);
    AUX(AT_PHNUM, a->phnum);
    AUX(AT_BASE, a->base);
    AUX(AT_FLAGS, 0);
    AUX(AT_ENTRY, a->entry);
    AUX(AT_UID, host_aux(h, AT_UID, 0));
    AUX(AT_EUID, (u32)kr_sys0(__NR_geteuid)); /* not the vector's: ids.c */
    AUX(AT_GID, host_aux(h, AT_GID, 0));
    AUX(AT_EGID, (u32)kr_sys0(__NR_getegid));
    AUX(AT_SECURE, host_aux(h, AT_SECURE, 0));
    AUX(AT_RANDOM, random);
    AUX(AT_HWCAP2, host_aux(h, AT_HWCAP2, 0));
    AUX(AT_EXECFN, execfn);
    AUX(AT_PLATFORM, platform);
    AUX(AT_NULL, 0);
#undef AUX
    u64 words = 1 + argc + 1 + envc + 1 + n;
    p = (p - words * 8) & ~15ULL;
    *sp = p;
    u64 *slot = (u64 *)p, at = mm->arg_start;
    *slot++ = argc;
    put_strings(a->argv, &at, &slot);
    put_strings(a->envp, &at, &slot);
    memcpy(slot, aux, n * 8);
    mm->auxv_addr = (u64)slot;
    mm->auxv_size = (u32)(n * 8);
    return 0;
}
