// Mappings that can no longer be changed: mseal(2), Linux 6.10.
#include "guest.h"
enum { MSEAL = 462 };
static long mseal(void *p, size_t n, unsigned long flags) { return syscall(MSEAL, p, n, flags); }
int main(int argc, char **argv) {
    char *p = pages(8), *q = pages(2);
    if (SHOW(mseal(p, 0, 0)) < 0)
        return 0; /* an older kernel */
    SHOW(mseal(p, PAGE, 1)), SHOW(mseal(p + 1, PAGE, 0)), SHOW(mseal((void *)PAGE, PAGE, 0)),
        SHOW(mseal(p, -1UL, 0));
    memset(p, 'x', 8 * PAGE);
    MUST(mprotect(p + 4 * PAGE, PAGE, PROT_READ));
    SHOW(mseal(p + 2 * PAGE, 4 * PAGE - 5, 0)), SHOW(mseal(p + 2 * PAGE, 4 * PAGE, 0));
    SHOW(munmap(p + 2 * PAGE, PAGE)), SHOW(munmap(p + PAGE, 2 * PAGE)), SHOW(munmap(p, 8 * PAGE)),
        SHOW(mprotect(p + 3 * PAGE, PAGE, PROT_READ)), SHOW(mprotect(p, 8 * PAGE, PROT_READ | PROT_WRITE));
    SHOW(mprotect(p + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE));
    EXPECT(mremap(p + 2 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EPERM);
    EXPECT(mremap(p + 2 * PAGE, 2 * PAGE, PAGE, 0) == MAP_FAILED && errno == EPERM);
    EXPECT(mremap(q, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 5 * PAGE) == MAP_FAILED &&
           errno == EPERM);
    EXPECT(mmap(p + 2 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
               MAP_FAILED &&
           errno == EPERM);
    EXPECT(mmap(p, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED &&
           errno == EPERM);
    EXPECT(mmap(p + 2 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
               MAP_FAILED &&
           errno == EEXIST);
    SHOW(madvise(p + 2 * PAGE, PAGE, MADV_DONTNEED)), SHOW(p[2 * PAGE]),
        SHOW(madvise(p + 4 * PAGE, PAGE, MADV_DONTNEED)), SHOW(p[4 * PAGE]),
        SHOW(madvise(p + 4 * PAGE, PAGE, MADV_FREE)), SHOW(madvise(p + 4 * PAGE, PAGE, MADV_WILLNEED));
    SHOW(madvise(p, 8 * PAGE, MADV_DONTNEED)), SHOW(p[PAGE]), SHOW(p[7 * PAGE]);
    p[3 * PAGE] = 'y', SHOW(p[3 * PAGE]);
    CATCH(p[4 * PAGE] = 1);
    say_fault("read-only stays", p);
    reap("sealed in the child, too", CHILD(SHOW(munmap(p + 2 * PAGE, PAGE)), SHOW(p[3 * PAGE])));
    SHOW(munmap(p, PAGE)), SHOW(munmap(p + 6 * PAGE, 2 * PAGE));
    char *brk0 = sbrk(0);
    MUST(brk(brk0 + 2 * PAGE) ? -1 : 0);
    char *heap = (char *)(((uintptr_t)brk0 + PAGE) & -PAGE);
    SHOW(mseal(heap, PAGE, 0));
    EXPECT(brk(heap) == -1 || sbrk(0) != heap);
    return wrong;
}
