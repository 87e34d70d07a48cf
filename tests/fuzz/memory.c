// Memory: one's own arena, the ends of the window, System V segments whose ids come back.
#include "fuzz.h"
#include <sys/ipc.h>
#include <sys/shm.h>

void memory(void) {
    u64 at = (u64)arena + (below(256) << 12), n = (1 + below(32)) << 12;
    switch (below(8)) {
    case 0:
        mprotect((void *)at, n, (int)below(8));
        break;
    case 1:
        munmap((void *)at, n);
        break;
    case 2:
        mmap((void *)at, n, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    case 3:
        mremap((void *)at, n, (1 + below(64)) << 12, MREMAP_MAYMOVE | MREMAP_FIXED,
               arena + (below(256) << 12));
        break;
    case 4:
        madvise((void *)at, n, (int)below(30));
        break;
    default: // keeps it usable
        mmap(arena, ARENA, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        for (u64 i = 0; i < 512; i++)
            memcpy(arena + below(ARENA - 8), &(u64){value()}, 8);
    }
}

// An address near an end of the window, and a length that ends before it, at it, behind it, or runs over.
static u64 edge(u64 *n) {
    static const u64 sizes[] = {0x1000, 0x2000, 0x10000, 0x200000, 0x4000000, 0x40000000, 1UL << 40};
    *n = sizes[below(COUNT(sizes))] + (below(4) ? 0 : below(0x2000) - 0x1000);
    u64 end = below(4) ? WINDOW_END : border();
    return end - *n + (below(5) - 2) * 0x1000 + (below(8) ? 0 : below(0x1000));
}

void edges(void) {
    u64 n, at = edge(&n), m, other = edge(&m);
    static const u64 kinds[] = {MAP_FIXED,
                                MAP_FIXED_NOREPLACE,
                                0,
                                MAP_FIXED | MAP_GROWSDOWN,
                                MAP_FIXED | MAP_HUGETLB,
                                MAP_FIXED | MAP_NORESERVE};
    switch (below(10)) {
    case 0:
    case 1:
    case 2:
        RAW(SYS_mmap, at, n, below(8),
            kinds[below(COUNT(kinds))] | (below(3) ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, (u64)-1, 0);
        break;
    case 3:
        RAW(SYS_mremap, (u64)arena, 1 + below(ARENA), m, below(8), at);
        break;
    case 4:
        RAW(SYS_mremap, at, n, m, below(8), other);
        break;
    case 5:
        RAW(SYS_munmap, at, n);
        break;
    case 6:
        RAW(SYS_mprotect, at, n, below(8) | (below(2) ? 0 : below(4) << 24));
        break;
    case 7:
        RAW(SYS_madvise, at, n, below(30));
        break;
    case 8:
        RAW(SYS_brk, below(2) ? at : (u64)sbrk(0) + below(1 << 24));
        break;
    default:
        RAW(below(2) ? SYS_mlock : SYS_msync, at, n, below(8));
    }
}

// Segments of different sizes under few ids: other processes remove and make them at the same time.
void shared_ids(void) {
    static const u64 sizes[] = {1, 0x1000, 0x200000, 0x1000000, 0x10000000, 1UL << 36};
    static int held[16]; // shared by nobody, but ids are the whole container's
    u64 n, i = below(COUNT(held));
    struct shmid_ds info;
    switch (below(6)) {
    case 0:
    case 1:
        held[i] = shmget(below(2) ? IPC_PRIVATE : (key_t)(1 + below(4)), sizes[below(COUNT(sizes))],
                         IPC_CREAT | 0666 | (below(8) ? 0 : SHM_HUGETLB) | SHM_NORESERVE);
        break;
    case 2:
        shmctl(below(2) ? held[i] : (int)below(64), IPC_RMID, NULL);
        break;
    case 3:
        shmctl(below(2) ? held[i] : (int)below(64), (int)below(16), below(8) ? &info : (void *)pointer());
        break;
    default: {
        u64 at = below(3) ? (u64)arena + (below(256) << 12) : edge(&n) & (below(2) ? ~0xfffUL : ~0UL);
        u64 r = RAW(SYS_shmat, (u64)(below(2) ? held[i] : (int)below(64)), below(3) ? at : 0,
                    (below(2) ? SHM_REMAP : 0) | (below(4) ? 0 : SHM_RDONLY) | (below(4) ? 0 : SHM_RND));
        if (r < (u64)-4096 && below(4))
            RAW(SYS_shmdt, r);
    }
    }
}
