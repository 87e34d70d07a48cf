// Shared file mapping: writes reach the file and the other way round, two mappings are one: mmap(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "0123456789");
    MUST(ftruncate(fd, 2 * PAGE));
    char *p = MUSTP(mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    char *q = MUSTP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PAGE)), back[6] = "";
    memcpy(p, "abc", 3);
    pread(fd, back, 5, 0);
    say("%s", back);
    pwrite(fd, "ZZ", 2, 5);
    say("%.10s", p);
    p[PAGE + 9] = 'q';
    say("second mapping %c", q[9]);
    int ro = MUST(open("f", O_RDONLY));
    EXPECT(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, ro, 0) == MAP_FAILED && errno == EACCES);
    char *r = MUSTP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0));
    TRY(mprotect(r, PAGE, PROT_READ | PROT_WRITE));
    return wrong;
}
