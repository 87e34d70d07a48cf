// Anonymous private mappings: zero, writable, page-aligned, given back: mmap(2).
// krun: static musl
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(16);
    EXPECT((uintptr_t)p % PAGE == 0 && p[0] == 0 && p[16 * PAGE - 1] == 0);
    memset(p, 7, 16 * PAGE);
    TRY(munmap(p, 16 * PAGE));
    CATCH(*(volatile char *)p);
    say_fault("after munmap", p);
    TRY(munmap(p, 16 * PAGE)); // again: no error
    char *q = pages(1);
    EXPECT(q[0] == 0);
    EXPECT(pages(1) != pages(1));
    return wrong;
}
