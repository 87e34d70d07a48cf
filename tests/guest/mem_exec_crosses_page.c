// An instruction that begins on an executable page and ends on a page that is not: fault at the second page.
#include "guest.h"
int main(int argc, char **argv) {
    unsigned char *p = pages(2);
    memcpy(p + PAGE - 2, "\xb8\x01\x00\x00\x00\xc3", 6);
    MUST(mprotect(p, PAGE, PROT_READ | PROT_EXEC));
    CATCH(((void (*)(void))(p + PAGE - 2))());
    say_fault("second page not executable", p);
    MUST(munmap(p + PAGE, PAGE));
    CATCH(((void (*)(void))(p + PAGE - 2))());
    say_fault("second page missing", p);
    return 0;
}
