// madvise(2) option by option: which succeed, which fail with what.
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(1024);
    memset(p, 4, 1024 * PAGE);
    TRY(madvise(p, 1024 * PAGE, MADV_NORMAL));
    TRY(madvise(p, 1024 * PAGE, MADV_RANDOM));
    TRY(madvise(p, 1024 * PAGE, MADV_SEQUENTIAL));
    TRY(madvise(p, 1024 * PAGE, MADV_HUGEPAGE));
    TRY(madvise(p, 1024 * PAGE, MADV_NOHUGEPAGE));
    TRY(madvise(p, 1024 * PAGE, MADV_WILLNEED));
    TRY(madvise(p, 1024 * PAGE, MADV_DONTDUMP));
    TRY(madvise(p, 1024 * PAGE, MADV_DODUMP));
    TRY(madvise(p, 1024 * PAGE, MADV_COLD));
    EXPECT(p[5] == 4 && p[1024 * PAGE - 1] == 4);
    TRY(madvise(p, PAGE, MADV_FREE));
    EXPECT(p[0] == 4 || p[0] == 0);
    p[0] = 7; // written after MADV_FREE: stays
    EXPECT(p[0] == 7);
    TRY(madvise(p, PAGE, 23 + 1000));
    TRY(madvise(p + 1, PAGE, MADV_DONTNEED));
    TRY(madvise(p, 0, MADV_DONTNEED));
    munmap(p + PAGE, PAGE);
    TRY(madvise(p, 3 * PAGE, MADV_DONTNEED)); // hole
    TRY(madvise(p, PAGE, MADV_REMOVE));       // private
    char *s = MUSTP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    memset(s, 3, 4 * PAGE);
    TRY(madvise(s + PAGE, PAGE, MADV_REMOVE));
    say("hole punched: %d %d %d", s[0], s[PAGE], s[2 * PAGE]);
    return wrong;
}
