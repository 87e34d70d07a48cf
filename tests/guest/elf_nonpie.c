// A program linked at a fixed address is loaded there: elf(5).
// krun: only=no-pie static
#include "guest.h"
extern char __executable_start, etext;
int main(int argc, char **argv) {
    say("start %p", &__executable_start);
    EXPECT((uintptr_t)&main >= 0x400000 && (uintptr_t)&main < (uintptr_t)&etext);
    return wrong;
}
