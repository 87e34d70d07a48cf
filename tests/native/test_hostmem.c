/* SPDX-License-Identifier: Apache-2.0
 * machine/hostmem.c: every function that gives the kernel an address, with ranges at the edges of the window and
 * of the numbers. What is not wholly inside is refused before the kernel sees it: pages of the test above the
 * window, and those that the test has at the places named, stay as they are. Attached segments have the size
 * that the kernel gave them. Sources: hostmem.c kr_alloc.c */
#include "harness.h"
#include "machine/hostmem.h"
#include <linux/mman.h>

#define MAP_FIXED_NOREPLACE_ 0x100000

static int inside(u64 addr, u64 len) {
    return addr >= KR_WINDOW_START && addr < KR_WINDOW_END && len && len <= KR_WINDOW_END - addr &&
           !(addr & 4095);
}

/* A page of the test's own that no call here may change. */
static u8 *canary(u64 at) {
    long p = kr_sys6(__NR_mmap, at, KR_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE_, (u64)-1, 0);
    CHECK_EQ(p, at);
    *(u8 *)p = 0x5a;
    return (u8 *)p;
}

static const u64 addresses[] = {0,
                                KR_PAGE,
                                KR_WINDOW_START - KR_PAGE,
                                KR_WINDOW_END - KR_PAGE,
                                KR_WINDOW_END - 2 * KR_PAGE,
                                KR_WINDOW_END - 1,
                                KR_WINDOW_END - KR_PAGE + 1,
                                KR_WINDOW_END,
                                KR_WINDOW_END + KR_PAGE,
                                KR_SYS_BASE,
                                KR_HOST_SYS,
                                KR_HOST_LOW,
                                KR_TASK_SIZE - KR_PAGE,
                                1ULL << 47,
                                1ULL << 63,
                                ~0ULL,
                                ~(u64)(KR_PAGE - 1)};
static const u64 lengths[] = {0,
                              1,
                              KR_PAGE,
                              KR_PAGE + 1,
                              2 * KR_PAGE,
                              2 * KR_PAGE + 1,
                              2ULL << 20,
                              1ULL << 40,
                              KR_WINDOW_END,
                              1ULL << 47,
                              1ULL << 63,
                              ~0ULL,
                              ~(u64)(KR_PAGE - 1)};

#define REFUSED(call)                                                                                        \
    do {                                                                                                     \
        if (!inside(a, n))                                                                                   \
            CHECK_EQ(call, -EFAULT);                                                                         \
    } while (0)

static void edges(void) {
    u8 vec[1];
    long src = (long)kr_test_window(4 * KR_PAGE);
    for (u32 i = 0; i < KR_COUNT(addresses); i++)
        for (u32 k = 0; k < KR_COUNT(lengths); k++) {
            u64 a = addresses[i], n = lengths[k];
            REFUSED(kr_host_map(a, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
            REFUSED(kr_host_map(a, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE_, -1, 0));
            REFUSED(kr_host_unmap(a, n));
            REFUSED(kr_host_protect(a, n, PROT_READ));
            REFUSED(kr_host_advise(a, n, MADV_DONTNEED));
            REFUSED(kr_host_file_pages(a, n, 0));
            REFUSED(kr_host_mlock(a, n, 0));
            REFUSED(kr_host_munlock(a, n));
            REFUSED(kr_host_mincore(a, n, vec));
            REFUSED(kr_host_remap((u64)src, KR_PAGE, n, MREMAP_MAYMOVE | MREMAP_FIXED, a));
            if (!inside(a, KR_MAX(n, KR_PAGE)))
                CHECK_EQ(kr_host_remap(a, n, KR_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (u64)src), -EFAULT);
            if (!inside((u64)src, n))
                CHECK_EQ(kr_host_remap((u64)src, KR_PAGE, n, 0, 0), -EFAULT);
            u64 six[6] = {a, n, MS_ASYNC};
            if (a >= KR_WINDOW_END || n > KR_WINDOW_END - a)
                CHECK_EQ(kr_host_forward(__NR_msync, six), -ENOMEM);
        }
    /* The kernel would choose the place. */
    CHECK_EQ(kr_host_remap((u64)src, KR_PAGE, 2 * KR_PAGE, MREMAP_MAYMOVE, 0), -EFAULT);
    CHECK_EQ(kr_host_remap((u64)src, KR_PAGE, 2 * KR_PAGE, MREMAP_MAYMOVE | 4, 0), -EFAULT);
    /* Nothing of the payload's is ever executable on the host. */
    CHECK_EQ(kr_host_map((u64)src, KR_PAGE, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), -EACCES);
    CHECK_EQ(kr_host_protect((u64)src, KR_PAGE, PROT_READ | PROT_EXEC), -EACCES);
    /* Other calls do not come this way. */
    u64 none[6] = {(u64)src, KR_PAGE};
    CHECK_EQ(kr_host_forward(__NR_munmap, none), -ENOSYS);
    /* The last page of the window is the payload's. */
    u64 last = KR_WINDOW_END - KR_PAGE;
    CHECK_EQ(kr_host_map(last, KR_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), last);
    CHECK_EQ(kr_host_unmap(last, KR_PAGE), 0);
    CHECK_EQ(kr_host_back((u8 *)KR_WINDOW_END, KR_PAGE, 0), -EFAULT);
    CHECK_EQ(kr_host_back((u8 *)KR_HOST_LOW - KR_PAGE, 2 * KR_PAGE, 0), -EFAULT);
    CHECK_EQ(kr_host_back((u8 *)KR_HOST_SYS, ~0ULL, 0), -EFAULT);
}

#define IPC_PRIVATE 0
#define IPC_RMID 0
#define IPC_STAT 2
#define SHM_NORESERVE 010000

static u64 attached_to(long id) {
    u64 ds[14];
    CHECK_EQ(kr_sys3(__NR_shmctl, id, IPC_STAT, ds), 0);
    return ds[11]; /* shm_nattch */
}

static void segments(void) {
    u64 base = (u64)kr_test_window(16 * KR_PAGE), n = 0;
    CHECK_EQ(kr_host_unmap(base, 15 * KR_PAGE), 0); /* the last page stays */
    long id = kr_sys3(__NR_shmget, IPC_PRIVATE, 4 * KR_PAGE + 1, 0600);
    CHECK(id >= 0);
    CHECK_EQ(kr_host_attach((s32)id, base, 0, &n), base);
    CHECK_EQ(n, 5 * KR_PAGE);
    /* Something is in the way of a part of it, however large the caller believed it to be. */
    CHECK_EQ(kr_host_attach((s32)id, base + 4 * KR_PAGE, 0, &n), -EINVAL);
    CHECK_EQ(kr_host_attach((s32)id, base + 11 * KR_PAGE, 0, &n), -EINVAL);
    CHECK_EQ(kr_host_attach((s32)id, base + 10 * KR_PAGE, 0, &n), base + 10 * KR_PAGE);
    CHECK_EQ(attached_to(id), 2);
    /* Over the window's end: detached again, and a fence keeps it from ever being there. */
    CHECK_EQ(kr_host_attach((s32)id, KR_WINDOW_END - 4 * KR_PAGE, 0, &n), -ENOMEM);
    CHECK_EQ(attached_to(id), 2);
    u8 *fence = canary(KR_WINDOW_END);
    CHECK_EQ(kr_host_attach((s32)id, KR_WINDOW_END - 4 * KR_PAGE, 0, &n), -EINVAL);
    CHECK_EQ(*fence, 0x5a);
    kr_sys2(__NR_munmap, fence, KR_PAGE);
    CHECK_EQ(kr_host_attach((s32)id, KR_WINDOW_END, 0, &n), -EFAULT);
    CHECK_EQ(kr_host_attach((s32)id, 0, 0, &n), -EFAULT);
    CHECK_EQ(kr_host_attach(-1, base + 5 * KR_PAGE, 0, &n), -EINVAL);
    CHECK_EQ(kr_host_segment((s32)id, &n), 0);
    CHECK_EQ(n, 5 * KR_PAGE);
    kr_sys3(__NR_shmctl, id, IPC_RMID, 0);
    CHECK_EQ(kr_host_unmap(base, 15 * KR_PAGE), 0);
}

void test_main(void) {
    static const u64 places[] = {KR_WINDOW_END + KR_PAGE, KR_SYS_BASE, KR_HOST_SYS, KR_HOST_LOW};
    u8 *c[KR_COUNT(places)];
    for (u32 i = 0; i < KR_COUNT(places); i++)
        c[i] = canary(places[i]);
    edges();
    segments();
    for (u32 i = 0; i < KR_COUNT(places); i++)
        CHECK_EQ(*c[i], 0x5a);
    /* This process has mappings in the window: that is what a monitor must not find. */
    int counted;
    CHECK_EQ(kr_host_take_window(&counted), -EEXIST);
    CHECK_EQ(counted, 1);
}
