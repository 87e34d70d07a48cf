// brk stops where another mapping is in the way: brk(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    char *start = (char *)(((uintptr_t)sbrk(0) + PAGE - 1) & -PAGE);
    char *wall =
        mmap(start + 64 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT(wall == start + 64 * PAGE);
    EXPECT(syscall(SYS_brk, start + 32 * PAGE) == (long)(start + 32 * PAGE));
    EXPECT(syscall(SYS_brk, start + 80 * PAGE) == (long)(start + 32 * PAGE));
    EXPECT(wall[0] == 0);
    char *m = malloc(1 << 20); // malloc falls back to mmap
    EXPECT(m != NULL);
    return wrong;
}
