// MREMAP_DONTUNMAP moves the pages and leaves an empty mapping behind: mremap(2).
#include "guest.h"
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
int main(int argc, char **argv) {
    char *p = pages(4);
    memset(p, 9, 4 * PAGE);
    char *q = mremap(p, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    EXPECT(q != MAP_FAILED && q != p);
    say("new %d, old %d", q[3 * PAGE], p[3 * PAGE]);
    p[0] = 3;
    EXPECT(q[0] == 9);
    return wrong;
}
