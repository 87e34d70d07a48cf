// Processes that share: memory, descriptor table, directory, signal actions in all combinations, children of
// vfork that stay, their grandchildren.  Each relative on the same memory has a stack and a thread area of
// its own, so that it can walk as randomly as the others.
#include "fuzz.h"
#include <sys/prctl.h>

#define RELATIVE_STACK (256UL << 10)

extern void *_dl_allocate_tls(void *); // in the static libc

struct relative {
    u64 seed, rounds;
    int depth;
};
static __thread int depth;

// A thread area as the libc makes one; the canaries of stack and pointers are the caller's.
static void *thread_area(void) {
    u64 *area = _dl_allocate_tls(NULL), *own;
    if (!area)
        return NULL;
    __asm__("mov %%fs:0, %0" : "=r"(own));
    area[0] = area[2] = (u64)area;
    area[5] = own[5], area[6] = own[6];
    return area;
}

static int relative(void *argument) {
    struct relative *r = argument;
    state = r->seed | 1, depth = r->depth;
    rounds(r->rounds);
    if (!below(4)) { // as after vfork: another program in place of it
        char *argv[] = {"guest_fuzz", "probe", NULL};
        execv("/guest_fuzz", argv);
    }
    RAW(SYS_exit, below(64));
    return 0;
}

void relatives(void) {
    static const u64 shares[] = {CLONE_FILES, CLONE_FS, CLONE_SYSVSEM, CLONE_IO,   CLONE_PARENT,
                                 CLONE_VFORK, CLONE_VM, CLONE_VM,      CLONE_FILES};
    if (depth >= 3)
        return;
    u64 flags = below(8) ? SIGCHLD : below(65);
    for (u64 i = 0; i < COUNT(shares); i++)
        if (below(2))
            flags |= shares[i];
    if (!(flags & CLONE_VM)) {
        // One that has its own memory walks on in it with what it shares.
        long pid = (long)RAW(SYS_clone, flags & ~(u64)CLONE_VFORK, 0, 0, 0, 0);
        if (pid == 0) {
            depth++;
            state ^= (u64)gettid() << 32;
            rounds(2 + below(30));
            RAW(SYS_exit_group, below(64));
        }
        return;
    }
    if (below(3) == 0)
        flags |= CLONE_SIGHAND;
    struct relative *r = mmap(NULL, RELATIVE_STACK, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *area = thread_area();
    if (r == MAP_FAILED || !area)
        return;
    *r = (struct relative){rnd(), 2 + below(flags & CLONE_VFORK ? 10 : 200), depth + 1};
    clone(relative, (char *)r + RELATIVE_STACK - 64, (int)(flags | CLONE_SETTLS), r, NULL, area, NULL);
}
