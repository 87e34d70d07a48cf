// An unhandled fault ends the program with SIGSEGV.
// krun: static exit=SIGSEGV
#include "guest.h"
int main(int argc, char **argv) {
    say("faulting");
    *(volatile int *)8 = 1;
    return 0;
}
