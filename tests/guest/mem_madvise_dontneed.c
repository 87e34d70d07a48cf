// MADV_DONTNEED gives zero pages in private memory and the file's contents in file mappings: madvise(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(600); // more than a huge page
    memset(p, 4, 600 * PAGE);
    TRY(madvise(p + PAGE, 550 * PAGE, MADV_DONTNEED));
    long sum = 0;
    for (int i = 0; i < 600; i++)
        sum += p[i * PAGE];
    say("sum %ld, edges %d %d %d", sum, p[PAGE - 1], p[PAGE], p[551 * PAGE]);
    int fd = file_with("f", "original");
    char *f = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    f[0] = 'X';
    MUST(madvise(f, PAGE, MADV_DONTNEED));
    say("%s", f);
    char *s = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    s[0] = 8;
    MUST(madvise(s, PAGE, MADV_DONTNEED));
    say("shared memory keeps %d", s[0]);
    return 0;
}
