// A mapping longer than its file: zeros up to the page's end, SIGBUS on the pages behind: mmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "short");
    char *p = MUSTP(mmap(NULL, 3 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0));
    say("%s, then %d, last of page %d", p, p[5], p[PAGE - 1]);
    CATCH(*(volatile char *)(p + PAGE));
    say_fault("next page", p);
    CATCH(*(volatile char *)(p + 3 * PAGE - 1));
    say_fault("last byte", p);
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 100 * PAGE));
    return 0;
}
