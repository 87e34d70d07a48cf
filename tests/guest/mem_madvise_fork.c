// MADV_DONTFORK and MADV_WIPEONFORK decide what a child inherits: madvise(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(3);
    memset(p, 6, 3 * PAGE);
    TRY(madvise(p, PAGE, MADV_DONTFORK));
    TRY(madvise(p + PAGE, PAGE, MADV_WIPEONFORK));
    reap("child", CHILD({
             CATCH(*(volatile char *)p);
             say_fault("not forked", p);
             say("wiped %d, kept %d", p[PAGE], p[2 * PAGE]);
         }));
    say("parent %d %d %d", p[0], p[PAGE], p[2 * PAGE]);
    return 0;
}
