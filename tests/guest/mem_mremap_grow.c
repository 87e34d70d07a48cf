// mremap(2) in place and by moving keeps the contents; shrinking frees the tail.
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(64);
    munmap(p + 8 * PAGE, 56 * PAGE);
    for (int i = 0; i < 8; i++)
        p[i * PAGE] = i + 1;
    EXPECT(mremap(p, 8 * PAGE, 16 * PAGE, 0) == p); // there is room
    EXPECT(p[7 * PAGE] == 8 && p[15 * PAGE] == 0);
    mmap(p + 16 * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(mremap(p, 16 * PAGE, 32 * PAGE, 0) == MAP_FAILED && errno == ENOMEM);
    char *q = mremap(p, 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
    EXPECT(q != MAP_FAILED && q != p && q[7 * PAGE] == 8 && q[31 * PAGE] == 0);
    CATCH(*(volatile char *)p);
    say_fault("old place", p);
    EXPECT(mremap(q, 32 * PAGE, 4 * PAGE, 0) == q && q[3 * PAGE] == 4);
    CATCH(*(volatile char *)(q + 4 * PAGE));
    say_fault("tail", q);
    return wrong;
}
