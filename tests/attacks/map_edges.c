// Every call that takes a range of memory, with addresses and lengths around the window's end, the monitor's
// places and the ends of the number range; huge pages, whose size the kernel rounds up to, included. None may
// touch what is not the payload's: the monitor goes on, its maps are looked at on the host.
#include "attack.h"
#include <sys/ipc.h>
#include <sys/shm.h>

#define HOST_SYS 0x6e0000000000UL

static uint64_t state = 88172645463325252;
static uint64_t random64(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t place(void) {
    static const uint64_t base[] = {
        ATTACK_WINDOW_END, ATTACK_WINDOW_END, HOST_SYS, 0x6c0000000000, 0x6f0000000000, 0x7ffff7fff000,
        0x7ffffffff000,    1UL << 47,         0,        -4096UL};
    static const int64_t off[] = {0, -4096, 4096, -2097152, -1073741824, -8192, 2097152};
    return base[random64() % 10] + (uint64_t)off[random64() % 7] - (random64() % 8 == 0);
}

static uint64_t length(void) {
    static const uint64_t l[] = {1,          4096,      4097,      8192,      2097152,           2097153,
                                 1073741824, 1UL << 40, 6UL << 40, 1UL << 46, ATTACK_WINDOW_END, 1UL << 47,
                                 1UL << 63,  -1UL,      -4096UL,   0};
    return l[random64() % 16];
}

static void check(const char *what, void *p) {
    uint64_t a = (uint64_t)p;
    if (p != MAP_FAILED && a >= ATTACK_WINDOW_END)
        attack_won("%s gave %p", what, p);
}

static void once(int shm, int memfd, int huge) {
    static const int map_flags[] = {MAP_FIXED,
                                    MAP_FIXED_NOREPLACE,
                                    0,
                                    MAP_FIXED | MAP_GROWSDOWN,
                                    MAP_FIXED | MAP_HUGETLB,
                                    MAP_FIXED | MAP_HUGETLB | (30 << 26),
                                    MAP_HUGETLB | (1 << 26),
                                    MAP_HUGETLB | (63 << 26),
                                    MAP_32BIT,
                                    MAP_FIXED | MAP_POPULATE | MAP_NORESERVE};
    uint64_t a = place(), b = place(), n = length(), m = length();
    int flags = map_flags[random64() % 10], advice = (int)(random64() % 26);
    if (a < ATTACK_WINDOW_END && a + n > 1 && random64() % 4)
        a &= ~4095UL;
    // The program's own memory is low enough to survive what is done here below 0x6800_0000_0000.
    if (a < 0x690000000000UL || (a < ATTACK_WINDOW_END && a + n < a))
        a = ATTACK_WINDOW_END - 4096 * (1 + random64() % 4);
    switch (random64() % 13) {
    case 0:
        check("mmap", mmap((void *)a, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0));
        break;
    case 1:
        check("mmap of a file",
              mmap((void *)a, n, PROT_READ | PROT_WRITE, MAP_SHARED | (flags & ~MAP_HUGETLB),
                   random64() % 2 || huge < 0 ? memfd : huge, 0));
        break;
    case 2:
        munmap((void *)a, n);
        break;
    case 3:
        mprotect((void *)a, n, random64() % 2 ? PROT_READ : PROT_READ | PROT_WRITE | 0x01000000);
        break;
    case 4:
    case 5: {
        void *p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        static const int f[] = {1, 3, 5, 7, 0, 2};
        check("mremap",
              mremap(p,
                     random64() % 2   ? 16384
                     : random64() % 2 ? 0
                                      : n,
                     random64() % 2 ? 16384 : m, f[random64() % 6], (void *)(random64() % 2 ? a : b)));
        munmap(p, 16384);
        break;
    }
    case 6:
        check("mremap from",
              mremap((void *)a, n, m, 3, (void *)(random64() % 2 ? b : ATTACK_WINDOW_END - 4096)));
        break;
    case 7:
        madvise((void *)a, n, advice);
        break;
    case 8:
        syscall(SYS_mlock, a, n), syscall(SYS_munlock, a, n), msync((void *)a, n, MS_INVALIDATE);
        break;
    case 9: {
        static unsigned char vec[4096];
        mincore((void *)a, n & 0xffffff, vec);
        break;
    }
    case 10: {
        char *p = shmat(shm, (void *)a, random64() % 2 ? SHM_REMAP : SHM_RND);
        check("shmat", p);
        if (p != MAP_FAILED)
            shmdt(p);
        break;
    }
    case 11:
        syscall(SYS_brk, a), syscall(SYS_remap_file_pages, a, n, 0, 0, 0);
        syscall(SYS_mbind, a, n, 0, 0, 0, 0);
        break;
    default:
        syscall(462 /* mseal */, a | (random64() % 2 ? 0 : 1UL << 47), n & 0xfffff, 0);
    }
}

int main(void) {
    attack_check_native();
    state ^= (uint64_t)time(NULL) * 0x9e3779b97f4a7c15;
    int shm = shmget(IPC_PRIVATE, 8UL << 40, IPC_CREAT | 0600 | SHM_NORESERVE);
    int memfd = (int)syscall(SYS_memfd_create, "edges", 0), huge = (int)syscall(SYS_memfd_create, "huge", 4);
    if (memfd < 0 || ftruncate(memfd, 1 << 20))
        attack_broken("a memfd");
    if (huge >= 0 && ftruncate(huge, 4 << 20))
        huge = -1;
    // Children, because what a call does to the program itself may end it; the parent counts their ends.
    while (!attack_over()) {
        pid_t pid = fork();
        state += 0x9e3779b97f4a7c15;
        if (pid == 0) {
            for (int i = 0; i < 3000 && !attack_over(); i++)
                once(shm, memfd, huge);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (attack_child_won(status))
            attack_won("see above");
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            attack_won("a child ended with %d", WEXITSTATUS(status));
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
            attack_won("the monitor's own filter had to stop it");
    }
    shmctl(shm, IPC_RMID, NULL);
    attack_lost();
}
