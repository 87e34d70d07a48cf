// MAP_FIXED replaces what is there; a hint without it does not: mmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(8);
    memset(p, 1, 8 * PAGE);
    char *q =
        mmap(p + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(q == p + 2 * PAGE);
    say("%d %d %d %d", p[2 * PAGE - 1], p[2 * PAGE], p[4 * PAGE - 1], p[4 * PAGE]);
    q = mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(q != p && p[0] == 1);
    EXPECT(mmap(p + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
    munmap(p, 8 * PAGE);
    EXPECT(mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p); // a free hint is taken
    return wrong;
}
