// MAP_POPULATE, MAP_LOCKED, MAP_32BIT, MAP_STACK, MAP_NORESERVE, /dev/zero: mmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    unsigned char v[16] = {0};
    int resident = 0;
    char *p = MUSTP(
        mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    MUST(mincore(p, 16 * PAGE, v));
    for (int i = 0; i < 16; i++)
        resident += v[i] & 1;
    say("populated %d", resident);
    p = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
    EXPECT((uintptr_t)p < 1UL << 31);
    p[0] = 1;
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0));
    int zero = MUST(open("/dev/zero", O_RDWR));
    p = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0));
    p[5] = 1;
    say("/dev/zero %d %d", p[4], p[5]);
    p = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (p != MAP_FAILED)
        p[0] = 1, say("a huge page holds %d", p[0]);
    else
        say("no huge pages: %s", errno_name(errno));
    return wrong;
}
