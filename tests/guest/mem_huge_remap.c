// mremap(2) of mappings of hugetlbfs moves, shrinks and replaces whole huge pages, and never grows. No page
// of them is touched: the machine need not have one.
#include "guest.h"
#include <linux/memfd.h>
#define HUGE (2UL << 20)
#define TO (MREMAP_MAYMOVE | MREMAP_FIXED)
static int is_mapped(char *p) {
    unsigned char in;
    return mincore(p, PAGE, &in) == 0;
}
static void moves(char *at, int fd, int flags) {
    char *to = at + 4 * HUGE;
    MUSTP(mmap(at, 3 * HUGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE, fd, 0));
    memset(MUSTP(mmap(to, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)),
           7, 2 * HUGE);
    TRY(mremap(at + PAGE, PAGE, PAGE, TO, to));
    TRY(mremap(at, PAGE, PAGE, TO, to + PAGE));
    TRY(mremap(at, PAGE, HUGE + PAGE, MREMAP_MAYMOVE, NULL));
    TRY(mremap(at, 0, PAGE, MREMAP_MAYMOVE, NULL));
    // One page of 4 KiB stands for the huge page, here and there.
    EXPECT(mremap(at, PAGE, PAGE, TO, to) == to);
    EXPECT(!is_mapped(at) && !is_mapped(at + PAGE) && !is_mapped(at + HUGE - PAGE) && is_mapped(at + HUGE));
    TRY(munmap(to, PAGE));
    TRY(mprotect(to + PAGE, PAGE, PROT_READ));
    EXPECT(to[HUGE] == 7);
    EXPECT(mmap(at + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
           at + PAGE);
    // Smaller in its place, and to a place that the kernel chooses.
    EXPECT(mremap(at + HUGE, HUGE + PAGE, PAGE, 0, NULL) == at + HUGE);
    EXPECT(is_mapped(at + 2 * HUGE - PAGE) && !is_mapped(at + 2 * HUGE));
    TRY(munmap(to, HUGE));
    EXPECT(to[HUGE] == 7);
    munmap(at, 8 * HUGE);
}
int main(int argc, char **argv) {
    int fd = memfd_create("pages", MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd < 0) {
        say("no hugetlbfs: %s", errno_name(errno));
        return wrong;
    }
    TRY(ftruncate(fd, 3 * HUGE));
    char *room = MUSTP(mmap(NULL, 9 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    char *at = (char *)(((uintptr_t)room + HUGE - 1) & ~(HUGE - 1));
    say("of a file");
    moves(at, fd, MAP_PRIVATE);
    say("anonymous");
    moves(at, -1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
    return wrong;
}
