// Guard pages without mappings of their own: madvise(2) MADV_GUARD_INSTALL, Linux 6.13.
#include "guest.h"
enum { INSTALL = 102, REMOVE = 103 };
int main(int argc, char **argv) {
    char *p = pages(6);
    memset(p, 'x', 6 * PAGE);
    if (SHOW(madvise(p + PAGE, 2 * PAGE, INSTALL)) < 0)
        return 0; /* an older kernel */
    CATCH(p[PAGE] = 1);
    say_fault("write", p);
    CATCH(p[2 * PAGE + 5]++);
    say_fault("read", p);
    SHOW(p[0]), SHOW(p[3 * PAGE]);
    int fd = (int)MUST(open("/dev/zero", O_RDONLY));
    SHOW(read(fd, p + PAGE, 10)), SHOW(read(fd, p + PAGE - 4, 10));
    reap("child", CHILD(CATCH(p[PAGE] = 1); say_fault("child", p)));
    SHOW(madvise(p + PAGE, PAGE, INSTALL)), SHOW(madvise(p + 2 * PAGE, PAGE, REMOVE));
    SHOW(p[2 * PAGE]);
    CATCH(p[PAGE] = 1);
    say_fault("the other stays", p);
    SHOW(madvise(p, 3 * PAGE, MADV_DONTNEED));
    CATCH(p[PAGE] = 1);
    say_fault("after MADV_DONTNEED", p);
    MUST(mprotect(p, 3 * PAGE, PROT_READ)), MUST(mprotect(p, 3 * PAGE, PROT_READ | PROT_WRITE));
    CATCH(p[PAGE] = 1);
    say_fault("after mprotect", p);
    SHOW(madvise(p, 6 * PAGE, REMOVE)), p[PAGE] = 7, SHOW(p[PAGE]);
    SHOW(madvise(p + 1, PAGE, INSTALL)), SHOW(madvise((void *)PAGE, PAGE, INSTALL)),
        SHOW(madvise(p, 0, INSTALL));
    char *big = MUSTP(mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (long at = 0; at < 16 << 20; at += PAGE)
        big[at] = 1;
    SHOW(madvise(big + (5 << 20), PAGE, INSTALL));
    CATCH(big[5 << 20] = 1);
    say_fault("inside of a huge page", big);
    SHOW(big[(5 << 20) - 1]), SHOW(big[(5 << 20) + PAGE]);
    MUST(munmap(big, 16 << 20));
    return wrong;
}
