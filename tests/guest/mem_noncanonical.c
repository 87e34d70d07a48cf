// Non-canonical addresses: SIGSEGV with SI_KERNEL and address 0; kernel addresses: SEGV_MAPERR: sigaction(2).
#include "guest.h"
int main(int argc, char **argv) {
    volatile uintptr_t hole = 0x8000000000000000, high = 0xffff888000001000,
                       last = 0xffffffffff600000 - 0x100000;
    CATCH(*(volatile char *)hole);
    say_fault("non-canonical read", NULL);
    CATCH(*(volatile char *)(hole + 123) = 1);
    say_fault("non-canonical write", NULL);
    CATCH(((void (*)(void))hole)());
    say("non-canonical jump: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    signal(SIGUSR1, (void (*)(int))hole);
    CATCH(raise(SIGUSR1));
    say_fault("non-canonical handler", NULL);
    CATCH(*(volatile char *)high);
    say_fault("kernel read", NULL);
    CATCH(*(volatile char *)last = 1);
    say_fault("kernel write", NULL);
    CATCH(((void (*)(void))high)());
    say_fault("kernel jump", NULL);
    CATCH(*(volatile char *)0x7ffffffff000);
    say_fault("top of the user half", NULL);
    return 0;
}
