// Private file mapping: sees the file, keeps its own writes, the file stays: mmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "hello file");
    MUST(ftruncate(fd, 3 * PAGE));
    char *p = MUSTP(mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    say("%s", p);
    p[0] = 'J';
    char back[11] = "";
    pread(fd, back, 10, 0);
    say("mapping %s, file %s", p, back);
    pwrite(fd, "xyz", 3, PAGE); // not yet touched page: may show the new text
    EXPECT(!memcmp(p + PAGE, "xyz", 3));
    char *q = MUSTP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, PAGE));
    EXPECT(!memcmp(q, "xyz", 3));
    close(fd);
    EXPECT(p[2 * PAGE] == 0);
    return wrong;
}
