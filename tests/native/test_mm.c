/* SPDX-License-Identifier: Apache-2.0
 * machine/mm.c and machine/pt.c: random mmap, munmap, mprotect, mremap, madvise, brk and faults against a model that
 * knows every page; the host's mappings are real. After each step the array is sorted and says what the model
 * says, the page tables never allow more, and contents are where they belong. Sources: mm.c vma.c change.c remap.c segment.c advise.c pt.c slots.c
 * warm.c hostmem.c kr_alloc.c
 */
#include "harness.h"
#include "machine/mm.h"
#include "machine/slots.h"
#include "machine/usercopy.h"
#include <asm/siginfo.h>
#include <linux/mman.h>

#define PAGES 6144ULL /* 24 MiB: beyond what is mapped eagerly */
#define BASE 0x210000000000ULL
#define POOL (8 * KR_PT_SLOT)

static u32 pool_refused;
int kr_fd_hidden(u64 fd) {
    (void)fd;
    return 0;
}
int kr_pt_back(struct kr_vm *vm) { /* the whole pool is there */
    if (pool_refused || vm->pt_backed >= POOL)
        return -ENOMEM;
    vm->pt_backed += KR_PT_STEP;
    return 0;
}
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen) {
    u32 v;
    if (kr_copy_raw(&v, p, 4) < 0)
        return -EFAULT;
    *seen = v;
    return v == old ? kr_copy_raw(p, &new_value, 4) : 0;
}

static struct kr_mm *mm;
static struct page {
    u8 mapped, prot, shared;
    u32 tag; /* what was written at its start; 0: zero page */
} model[PAGES], was[PAGES];

static u64 at(u64 page) { return BASE + page * KR_PAGE; }

static void check_all(const char *what) {
    int before = kr_test_failures;
    for (u32 i = 0; i < mm->nvma; i++) {
        CHECK(mm->vma[i].start < mm->vma[i].end);
        CHECK(!i || mm->vma[i - 1].end <= mm->vma[i].start);
        CHECK(!((mm->vma[i].start | mm->vma[i].end) & (KR_PAGE - 1)));
    }
    u32 v = 0;
    for (u64 p = 0; p < PAGES; p++) {
        while (v < mm->nvma && mm->vma[v].end <= at(p))
            v++;
        int mapped = v < mm->nvma && mm->vma[v].start <= at(p);
        const struct page *m = &model[p];
        CHECK_EQ(mapped, m->mapped);
        if (mapped && m->mapped) {
            CHECK_EQ(mm->vma[v].prot, m->prot);
            CHECK_EQ((mm->vma[v].flags & KR_VMA_SHARED) != 0, m->shared);
        }
        u64 pte = kr_pt_get(&mm->vm, at(p));
        if (pte & KR_PTE_P) {
            CHECK(m->mapped && m->prot);
            CHECK(!(pte & KR_PTE_W) || m->prot & PROT_WRITE);
            CHECK(pte & KR_PTE_NX || m->prot & PROT_EXEC);
            CHECK(pte & KR_PTE_U);
            u64 gpa = pte & 0x000ffffffffff000ULL;
            if (pte & KR_PTE_PS)
                gpa += at(p) & ((2ULL << 20) - 1);
            u64 off = at(p) & (KR_CHUNK_SIZE - 1);
            const struct kr_chunk *k = kr_chunk_find(&mm->vm, at(p) >> KR_CHUNK_SHIFT);
            CHECK(k && (k->parts >> (off / KR_PART_SIZE) & 1));
            if (k)
                CHECK_EQ(gpa, KR_CHUNK_GPA + (u64)(k - mm->vm.chunk_list) * KR_CHUNK_SIZE + off);
        }
        if (kr_test_failures > before) {
            printf("page %llu after %s\n", (unsigned long long)p, what);
            return;
        }
    }
}

static void check_contents(const char *what) {
    for (u64 p = 0; p < PAGES; p++) {
        if (!model[p].mapped || !(model[p].prot & PROT_READ))
            continue;
        u32 v = 0;
        CHECK_EQ(kr_copy_raw(&v, (void *)at(p), 4), 0);
        if (v != model[p].tag) {
            printf("page %llu after %s: %u instead of %u\n", (unsigned long long)p, what, v, model[p].tag);
            kr_test_failures++;
            return;
        }
    }
}

static void scribble(u64 p) {
    if (model[p].mapped && model[p].prot & PROT_WRITE) {
        *(volatile u32 *)at(p) = model[p].tag = (u32)kr_test_random() | 1;
    }
}

static u32 random_prot(void) {
    static const u32 prots[] = {0, 1, 1, 3, 3, 3, 5, 7, 4, 2};
    return prots[kr_test_below(KR_COUNT(prots))];
}

static u64 random_len(void) {
    switch (kr_test_below(8)) {
    case 0:
        return 1 + kr_test_below(3000);
    case 1:
    case 2:
        return 1 + kr_test_below(600);
    default:
        return 1 + kr_test_below(20);
    }
}

static void step(void) {
    u64 p = kr_test_below(PAGES), n = random_len();
    const char *what = "";
    if (p + n > PAGES)
        n = PAGES - p;
    memcpy(was, model, sizeof was);
    long r;
    switch (kr_test_below(9)) {
    case 0:
    case 1:
    case 2: { /* mmap at a fixed place */
        u32 prot = random_prot(), shared = kr_test_below(4) == 0, noreplace = kr_test_below(4) == 0;
        r = kr_mm_mmap(mm, at(p), n * KR_PAGE - kr_test_below(2) * 100, prot,
                       (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS |
                           (noreplace ? MAP_FIXED_NOREPLACE : MAP_FIXED),
                       -1, 0);
        int taken = 0;
        for (u64 i = p; i < p + n; i++)
            taken |= model[i].mapped;
        if (noreplace && taken) {
            CHECK_EQ(r, -EEXIST);
            break;
        }
        CHECK_EQ(r, at(p));
        for (u64 i = p; i < p + n; i++)
            model[i] = (struct page){1, (u8)prot, (u8)shared, 0};
        what = "mmap";
        break;
    }
    case 3:
        CHECK_EQ(kr_mm_munmap(mm, at(p), n * KR_PAGE), 0);
        memset(&model[p], 0, n * sizeof model[0]);
        what = "munmap";
        break;
    case 4:
    case 5: {
        u32 prot = random_prot();
        u64 hole = p;
        while (hole < p + n && model[hole].mapped)
            hole++;
        r = kr_mm_mprotect(mm, at(p), n * KR_PAGE, prot);
        CHECK_EQ(r, hole < p + n ? -ENOMEM : 0); /* the part before the hole changes */
        for (u64 i = p; i < hole; i++)
            model[i].prot = (u8)prot;
        what = "mprotect";
        break;
    }
    case 6: { /* mremap to a fixed place */
        u64 q = kr_test_below(PAGES), k = 1 + kr_test_below(40), old = 1 + kr_test_below(40);
        if (p + old > PAGES || q + k > PAGES)
            break;
        if (model[p].shared && k > old)
            k = old; /* growing would show further pages of the object, which the model does not follow */
        r = kr_mm_mremap(mm, at(p), old * KR_PAGE, k * KR_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(q));
        if (r < 0)
            break; /* the model decides below whether that changed anything */
        CHECK_EQ(r, at(q));
        for (u64 i = 0; i < k; i++) {
            struct page from = i < old ? was[p + i] : (struct page){1, was[p].prot, was[p].shared, 0};
            model[q + i] = from;
        }
        for (u64 i = p; i < p + old; i++)
            if (i < q || i >= q + k)
                memset(&model[i], 0, sizeof model[0]);
        what = "mremap";
        break;
    }
    case 7: /* faults */
        for (u64 i = p; i < p + n && i < p + 4; i++) {
            u64 error = kr_test_below(2) ? 2 : kr_test_below(2) ? 16 : 0;
            u32 need = error & 2 ? PROT_WRITE : error & 16 ? PROT_EXEC : 0;
            int want = !model[i].mapped                                   ? SEGV_MAPERR
                       : !model[i].prot || (model[i].prot & need) != need ? SEGV_ACCERR
                                                                          : 0;
            CHECK_EQ(kr_mm_fault(mm, at(i) + kr_test_below(4096), error | 4), want);
            if (want == 0) {
                u64 pte = kr_pt_get(&mm->vm, at(i));
                CHECK(pte & KR_PTE_P);
                CHECK(!need || need == PROT_EXEC || pte & KR_PTE_W);
                CHECK(need != PROT_EXEC || !(pte & KR_PTE_NX));
            }
        }
        what = "fault";
        break;
    case 8: { /* MADV_DONTNEED: private pages read as zero again */
        int all = 1;
        for (u64 i = p; i < p + n; i++)
            all &= model[i].mapped;
        r = kr_mm_madvise(mm, at(p), n * KR_PAGE, MADV_DONTNEED);
        CHECK_EQ(r, all ? 0 : -ENOMEM);
        for (u64 i = p; i < p + n; i++)
            if (model[i].mapped && !model[i].shared)
                model[i].tag = 0;
        what = "madvise";
        break;
    }
    }
    for (int i = 0; i < 8; i++)
        scribble(kr_test_below(PAGES));
    check_all(what);
    if (kr_test_below(16) == 0)
        check_contents(what);
}

static void errors(void) {
    const u32 anon = MAP_PRIVATE | MAP_ANONYMOUS;
    CHECK_EQ(kr_mm_mmap(mm, 0, 0, 3, anon, -1, 0), -EINVAL);
    CHECK_EQ(kr_mm_mmap(mm, 1, 4096, 3, anon | MAP_FIXED, -1, 0), -EINVAL);
    CHECK_EQ(kr_mm_mmap(mm, 0, 4096, 3, anon | MAP_FIXED, -1, 0), -EPERM);
    CHECK_EQ(kr_mm_mmap(mm, KR_WINDOW_END, 4096, 3, anon | MAP_FIXED, -1, 0), -ENOMEM);
    CHECK_EQ(kr_mm_mmap(mm, KR_WINDOW_END - 4096, 8192, 3, anon | MAP_FIXED, -1, 0), -ENOMEM);
    CHECK_EQ(kr_mm_mmap(mm, 0x7fff00000000, 4096, 3, anon | MAP_FIXED, -1, 0), -ENOMEM);
    CHECK_EQ(kr_mm_mmap(mm, 0, ~0ULL, 3, anon, -1, 0), -ENOMEM);
    CHECK_EQ(kr_mm_mmap(mm, 0, ~0ULL - 4095, 3, anon, -1, 0), -ENOMEM);
    CHECK_EQ(kr_mm_mmap(mm, 0, 4096, 3, MAP_PRIVATE, -1, 0), -EBADF);
    CHECK_EQ(kr_mm_munmap(mm, 1, 4096), -EINVAL);
    CHECK_EQ(kr_mm_munmap(mm, at(0), 0), -EINVAL);
    CHECK_EQ(kr_mm_munmap(mm, 0x7ffffff00000, 4096), 0);
    CHECK_EQ(kr_mm_munmap(mm, KR_WINDOW_END - 4096, 8192), 0);
    CHECK_EQ(kr_mm_munmap(mm, at(0), ~0ULL), -EINVAL);
    CHECK_EQ(kr_mm_mprotect(mm, 1, 4096, 3), -EINVAL);
    CHECK_EQ(kr_mm_mprotect(mm, at(0), 4096, 64), -EINVAL);
    CHECK_EQ(kr_mm_mprotect(mm, at(0), ~0ULL, 3), -ENOMEM);
    CHECK_EQ(kr_mm_mprotect(mm, KR_WINDOW_END, 4096, 3), -ENOMEM);
    CHECK_EQ(kr_mm_mremap(mm, at(0), 4096, 0, MREMAP_MAYMOVE, 0), -EINVAL);
    CHECK_EQ(kr_mm_mremap(mm, 0x7ffffff00000, 4096, 8192, MREMAP_MAYMOVE, 0), -EFAULT);
    CHECK_EQ(kr_mm_mremap(mm, at(0), 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, 0x7ffffff00000), -EINVAL);
    CHECK_EQ(kr_mm_mremap(mm, at(0), ~0ULL, 4096, MREMAP_MAYMOVE, 0), -EINVAL);
    CHECK_EQ(kr_mm_madvise(mm, at(0), 4096, 100 /* HWPOISON */), -EINVAL);
    CHECK_EQ(kr_mm_madvise(mm, 0x7ffffff00000, 4096, MADV_DONTNEED), -ENOMEM);
    CHECK_EQ(kr_mm_fault(mm, KR_WINDOW_END, 4), SEGV_MAPERR);
    CHECK_EQ(kr_mm_fault(mm, ~0ULL, 4), SEGV_MAPERR);
}

/* Addresses of mmap's own choice: free, inside, top down; a huge reservation makes no tables. */
static void choice(void) {
    const u32 anon = MAP_PRIVATE | MAP_ANONYMOUS;
    u32 tables = mm->vm.pt_used;
    long big = kr_mm_mmap(mm, 0, 1ULL << 40, 0, anon | MAP_NORESERVE, -1, 0);
    CHECK(big > 0 && (u64)big + (1ULL << 40) <= mm->mmap_top);
    CHECK_EQ(mm->vm.pt_used, tables);
    CHECK_EQ(kr_mm_munmap(mm, (u64)big, 1ULL << 40), 0);
    long a = kr_mm_mmap(mm, 0, 4096, 3, anon, -1, 0), b = kr_mm_mmap(mm, 0, 4096, 1, anon, -1, 0);
    CHECK(a > 0 && b == a - 4096);
    long low = kr_mm_mmap(mm, 0, 8192, 3, anon | MAP_32BIT, -1, 0);
    CHECK(low > 0 && low < 0x80000000L);
    CHECK_EQ(kr_mm_munmap(mm, (u64)low, 8192), 0);
    CHECK_EQ(kr_mm_mmap(mm, (u64)a + 12288, 4096, 3, anon, -1, 0), a + 12288); /* a hint that is free */
    /* in place, then by moving */
    *(u32 *)a = 77;
    long c = kr_mm_mremap(mm, (u64)a, 4096, 8192, 0, 0);
    CHECK_EQ(c, a);
    c = kr_mm_mremap(mm, (u64)a, 8192, 1 << 20, MREMAP_MAYMOVE, 0);
    CHECK(c > 0 && c != a && *(u32 *)c == 77); /* a hint's mapping is in the way */
    CHECK_EQ(kr_mm_fault(mm, (u64)a, 4), SEGV_MAPERR);
    CHECK_EQ(kr_mm_munmap(mm, (u64)c, 1 << 20), 0);
    CHECK_EQ(kr_mm_munmap(mm, (u64)b, 4096), 0);
    /* brk */
    mm->brk_start = mm->brk_end = 0x220000000000ULL + 100;
    CHECK_EQ(kr_mm_brk(mm, 0), (long)mm->brk_start);
    CHECK_EQ(kr_mm_brk(mm, mm->brk_start + 10000), (long)mm->brk_start + 10000);
    *(u32 *)(mm->brk_start + 9996) = 5;
    CHECK_EQ(kr_mm_brk(mm, mm->brk_start + 4000), (long)mm->brk_start + 4000);
    CHECK_EQ(kr_mm_brk(mm, mm->brk_start + 20000), (long)mm->brk_start + 20000);
    CHECK_EQ(*(u32 *)(mm->brk_start + 9996), 0);
    CHECK_EQ(kr_mm_brk(mm, KR_WINDOW_END + 1), (long)mm->brk_start + 20000);
    CHECK_EQ(kr_mm_brk(mm, mm->brk_start), (long)mm->brk_start);
}

/* No memory for tables: the call fails and nothing is left half-way. */
static void exhausted(void) {
    pool_refused = 1;
    long r = 0;
    u32 n = 0;
    u64 far = 0x230000000000ULL;
    for (; r >= 0 && n < 20000; n++)
        r = kr_mm_mmap(mm, far + n * (1ULL << 30), 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK_EQ(r, -ENOMEM);
    u64 last = far + (n - 1) * (1ULL << 30);
    struct kr_vma *v = kr_vma_find(mm, last);
    CHECK(!v || v->start > last);
    pool_refused = 0;
}

void test_main(void) {
    mm = calloc(1, sizeof *mm);
    mm->vm.fd = -1;
    mm->vm.pt_slots = 1;
    mm->vm.chunk = calloc(KR_CHUNKS, sizeof(u32));
    mm->vm.chunk_list = calloc(KR_SLOTS_MAX, sizeof(struct kr_chunk));
    mm->mmap_top = 0x20f000000000ULL;
    long pool = kr_sys6(__NR_mmap, 0, POOL, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (u64)-1, 0);
    mm->vm.pt = (u8 *)pool;
    CHECK_EQ(kr_pt_init(&mm->vm), 0);
    errors();
    choice();
    for (int i = 0; i < 1500 && !kr_test_failures; i++)
        step();
    check_contents("all");
    exhausted();
    printf("mm: %u tables, %u mappings\n", mm->vm.pt_used, mm->nvma);
    free(mm->vm.chunk);
    free(mm->vm.chunk_list);
    free(mm);
}
