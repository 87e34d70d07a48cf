// MREMAP_FIXED puts the area on top of another one; errors on overlap and bad arguments: mremap(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(4), *q = pages(4);
    memset(p, 1, 4 * PAGE), memset(q, 2, 4 * PAGE);
    EXPECT(mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + PAGE) == q + PAGE);
    say("%d %d %d %d", q[0], q[PAGE], q[3 * PAGE - 1], q[3 * PAGE]);
    CATCH(*(volatile char *)(p + PAGE));
    say_fault("moved away", p);
    EXPECT(p[2 * PAGE] == 1);
    TRY(mremap(q, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + PAGE)); // overlap
    TRY(mremap(q, PAGE, PAGE, MREMAP_FIXED, p));
    TRY(mremap(q + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    TRY(mremap(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE)); // not mapped
    TRY(mremap(q, PAGE, 0, MREMAP_MAYMOVE));
    TRY(mremap(q, PAGE, PAGE, 64));
    return wrong;
}
