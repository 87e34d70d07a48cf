// munmap of ranges that begin where nothing can be mapped, and of everything.
#include "guest.h"
int main(int argc, char **argv) {
    char *p =
        mmap((void *)0x200000, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(p == (char *)0x200000);
    TRY(munmap(NULL, 0x201000));
    CATCH((void)*(volatile char *)p);
    say_fault("first page", p);
    CATCH((void)*(volatile char *)(p + 4096));
    say_fault("second page", p);
    TRY(munmap(p + 1, 4096));
    TRY(munmap(NULL, ~0xfffUL));
    TRY(munmap((void *)(1ul << 47), 4096));
    TRY(munmap((void *)0x7fffffffe000, 4096));
    TRY(munmap((void *)0x7fffffffe000, 8192));
    pid_t child = CHILD(munmap(NULL, 0x7ffffffff000));
    reap("all of it", child);
    return wrong;
}
