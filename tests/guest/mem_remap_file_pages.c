// Pages of a shared file mapping in another order: remap_file_pages(2).
#include "guest.h"
static long remap(void *p, size_t n, int prot, size_t page, int flags) {
    return syscall(SYS_remap_file_pages, p, n, prot, page, flags);
}
int main(int argc, char **argv) {
    int fd = (int)MUST(open("f", O_RDWR | O_CREAT, 0600));
    for (int i = 0; i < 6; i++) {
        char page[PAGE];
        memset(page, 'a' + i, PAGE);
        MUST(write(fd, page, PAGE));
    }
    char *p = MUSTP(mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), *q = pages(2);
    SHOW(remap(p, PAGE, 0, 5, 0)), SHOW(remap(p + 2 * PAGE, 2 * PAGE, 0, 0, 0));
    for (int i = 0; i < 6; i++)
        say("page %d: %c", i, p[i * PAGE]);
    p[0] = 'z';
    SHOW(p[5 * PAGE]);
    char c;
    SHOW(pread(fd, &c, 1, 5 * PAGE)), SHOW(c);
    SHOW(remap(p, PAGE, PROT_READ, 1, 0)), SHOW(remap(p + 1, PAGE, 0, 1, 0)), SHOW(remap(q, PAGE, 0, 1, 0)),
        SHOW(remap((void *)PAGE, PAGE, 0, 0, 0)), SHOW(remap(p, 0, 0, 0, 0));
    SHOW(remap(p, PAGE, 0, -1UL, 0)), SHOW(remap((void *)-8192L, PAGE, 0, 0, 0));
    SHOW(remap(p + 5 * PAGE, PAGE, 0, 9, 0));
    CATCH(p[5 * PAGE] = 1);
    say_fault("behind the end of the file", p);
    SHOW(munmap(p, 6 * PAGE));
    CATCH(p[0] = 1);
    say_fault("unmapped", p);
    return wrong;
}
