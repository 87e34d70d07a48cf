// Null pointer reads, writes, calls and member accesses: SEGV_MAPERR at the small address: sigaction(2).
// krun: static musl
#include "guest.h"
int main(int argc, char **argv) {
    volatile uintptr_t zero = 0;
    CATCH(*(volatile char *)zero);
    say_fault("read", NULL);
    CATCH(*(volatile char *)(zero + 0x123) = 1);
    say_fault("write", NULL);
    CATCH(((void (*)(void))zero)());
    say_fault("call", NULL);
    CATCH(*(volatile char *)(zero + 0xfff8));
    say_fault("member", NULL);
    EXPECT(mmap((void *)zero, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == 0 ||
           errno == EPERM || errno == EINVAL);
    return wrong;
}
