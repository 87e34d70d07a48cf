// mremap of large, densely used memory: what the host backs by huge pages is still one mapping.
#include "guest.h"
#define MB (1ul << 20)
static void fill(char *p, size_t from, size_t to) {
    for (size_t i = from; i < to; i += 4096)
        *(size_t *)(p + i) = i;
}
static int whole(char *p, size_t n) {
    for (size_t i = 0; i < n; i += 4096)
        if (*(size_t *)(p + i) != i)
            return 0;
    return 1;
}
static char *step(const char *what, char *p, size_t old, size_t new, int flags, void *to) {
    char *q = mremap(p, old, new, flags, to);
    say("%s: %s", what, q == MAP_FAILED ? errno_name(errno) : "done");
    if (q == MAP_FAILED)
        return p;
    EXPECT(whole(q, old < new ? old : new));
    if (new > old)
        fill(q, old, new);
    return q;
}
int main(int argc, char **argv) {
    char *area = mmap(NULL, 256 * MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p =
        mmap(area + MB, 16 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    fill(p, 0, 16 * MB);
    munmap(p + 16 * MB, 16 * MB);
    p = step("in place", p, 16 * MB, 24 * MB, 0, NULL);
    EXPECT(p == area + MB);
    p = step("moved", p, 24 * MB, 48 * MB, MREMAP_MAYMOVE, NULL);
    EXPECT(p != area + MB);
    p = step("to a place", p, 48 * MB, 64 * MB, MREMAP_MAYMOVE | MREMAP_FIXED, area + 64 * MB + 4096);
    p = step("smaller", p, 64 * MB, 9 * MB, MREMAP_MAYMOVE | MREMAP_FIXED, area + 200 * MB);
    char *q = step("left mapped", p, 9 * MB, 9 * MB, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, area);
    EXPECT(p[0] == 0 && p[5 * MB] == 0);
    EXPECT(whole(q, 9 * MB));
    return wrong;
}
