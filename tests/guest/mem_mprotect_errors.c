// mprotect(2) of unmapped, unaligned, too long ranges and odd flags.
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(4);
    munmap(p + 2 * PAGE, PAGE);
    TRY(mprotect(p + 1, PAGE, PROT_READ));
    TRY(mprotect(p, 4 * PAGE, PROT_READ)); // hole: ENOMEM, the part before is changed
    CATCH(*(volatile char *)p = 1);
    say_fault("before the hole", p);
    TRY(mprotect(p, 0, PROT_NONE));
    TRY(mprotect(p, PAGE, 0x40));
    TRY(mprotect(p, -PAGE, PROT_READ));
    TRY(mprotect((void *)0x7000000000000000, PAGE, PROT_READ));
    TRY(mprotect(p, PAGE, PROT_READ | PROT_GROWSDOWN)),
        TRY(mprotect(p, PAGE, PROT_READ | PROT_GROWSUP)); // grows nowhere
    TRY(mprotect(p, PAGE, PROT_READ | PROT_GROWSDOWN | PROT_GROWSUP));
    TRY(mprotect(p + 2 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN)),
        TRY(mprotect(p + 2 * PAGE, PAGE, PROT_GROWSUP));
    TRY(mprotect(p + PAGE, 1, PROT_NONE)); // rounded up to the page
    CATCH(*(volatile char *)(p + 2 * PAGE - 1));
    say_fault("rounded", p);
    return 0;
}
