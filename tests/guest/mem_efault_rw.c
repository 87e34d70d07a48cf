// Bad buffers of read and write: EFAULT, nothing consumed: read(2), write(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    int p[2];
    char *ro = pages(2), *none = pages(1), c;
    MUST(mprotect(ro, 2 * PAGE, PROT_READ)), MUST(mprotect(none, PAGE, PROT_NONE));
    MUST(pipe(p));
    TRY(write(p[1], NULL, 1));
    TRY(write(p[1], none, 1));
    TRY(write(p[1], (void *)-1L, 1));
    TRY(write(p[1], (void *)0x8000000000000000, 1));
    TRY(write(p[1], "ok", 2));
    TRY(read(p[0], NULL, 1));
    TRY(read(p[0], ro, 1));
    TRY(read(p[0], none, 1));
    TRY(read(p[0], (void *)main, 1));
    SHOW(read(p[0], NULL, 0));
    SHOW(write(p[1], (void *)-1L, 0));
    SHOW(read(p[0], &c, 1));
    say("first byte still there: %c", c);
    return 0;
}
