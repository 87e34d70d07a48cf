// MAP_FIXED_NOREPLACE fails with EEXIST on any overlap and takes exactly the free range: mmap(2).
#include "guest.h"
#define FLAGS MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
int main(int argc, char **argv) {
    char *p = pages(8);
    munmap(p + 4 * PAGE, 4 * PAGE);
    TRY(mmap(p, PAGE, PROT_READ, FLAGS, -1, 0));
    TRY(mmap(p + 3 * PAGE, 2 * PAGE, PROT_READ, FLAGS, -1, 0));
    char *q = mmap(p + 5 * PAGE, PAGE, PROT_READ, FLAGS, -1, 0);
    EXPECT(q == p + 5 * PAGE);
    TRY(mmap(p + 4 * PAGE, 3 * PAGE, PROT_READ, FLAGS, -1, 0));
    return wrong;
}
