// A MAP_GROWSDOWN mapping grows by itself towards lower addresses: mmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *area = MUSTP(mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    MUST(munmap(area, 4 << 20));
    char *top = area + (4 << 20);
    char *p = mmap(top - 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    EXPECT(p == top - 2 * PAGE);
    p[0] = 1;
    CATCH(for (int i = 1; i <= 100; i++) * (volatile char *)(p - i * PAGE) = i);
    say_fault("growing", p);
    EXPECT(p[-100 * (long)PAGE] == 100);
    TRY(read(open("/dev/zero", O_RDONLY), p - 110 * PAGE, 1)); // by the kernel, too
    return wrong;
}
