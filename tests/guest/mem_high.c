// Where the address sanitizer's allocator wants to lie (0x6000_0000_0000, later 0x5000_0000_0000), and its
// shadow: mmap(2).
#include "guest.h"
static void *reserve(unsigned long at, size_t n) {
    return mmap((void *)at, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE,
                -1, 0);
}
int main(int argc, char **argv) {
    static const struct {
        unsigned long at, n;
    } space[] = {{0x600000000000, 0x40000000000},
                 {0x500000000000, 0x40000000000},
                 {0x7fff8000, 0xffff000},
                 {0x02008fff7000, 0xdfff0001000}};
    for (size_t i = 0; i < COUNT(space); i++) {
        char *p = reserve(space[i].at, space[i].n);
        EXPECT(p == (char *)space[i].at);
        char *q = (char *)((uintptr_t)(p + space[i].n / 2) & -PAGE);
        MUST(mprotect(q, 4 * PAGE, PROT_READ | PROT_WRITE));
        q[0] = q[4 * PAGE - 1] = 7;
        SHOW(q[0] + q[1]);
        CATCH(q[-1] = 1);
        say_fault("below", q);
        int fd = (int)MUST(open("/dev/zero", O_RDONLY));
        SHOW(read(fd, q, 8)), SHOW(read(fd, q - 8, 8)), SHOW(q[0]);
        close(fd);
    }
    return wrong;
}
