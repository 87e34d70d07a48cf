// An old size of 0 duplicates a shared mapping; a file mapping keeps its offset when moved: mremap(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = MUSTP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    char *q = mremap(p, 0, 4 * PAGE, MREMAP_MAYMOVE);
    EXPECT(q != MAP_FAILED && q != p);
    p[PAGE] = 5, q[2 * PAGE] = 6;
    say("%d %d", q[PAGE], p[2 * PAGE]);
    int fd = file_with("f", "");
    for (int i = 0; i < 8; i++)
        pwrite(fd, &"ABCDEFGH"[i], 1, i * PAGE);
    char *f = MUSTP(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 2 * PAGE));
    f = mremap(f, 2 * PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    say("%c%c%c%c%c", f[0], f[PAGE], f[2 * PAGE], f[3 * PAGE], f[4 * PAGE]);
    return wrong;
}
