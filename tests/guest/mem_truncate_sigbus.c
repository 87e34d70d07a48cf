// A file cut short under a mapping: SIGBUS, BUS_ADRERR, the address; fine again after growing: mmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "x");
    MUST(ftruncate(fd, 4 * PAGE));
    char *s = MUSTP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    char *p = MUSTP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    memset(s, 'a', 4 * PAGE);
    p[2 * PAGE] = 'p'; // own copy: cut off all the same
    MUST(ftruncate(fd, PAGE + 10));
    CATCH(*(volatile char *)(s + 2 * PAGE + 5));
    say_fault("read shared", s);
    CATCH(*(volatile char *)(s + 3 * PAGE + 7) = 1);
    say_fault("write shared", s);
    CATCH(*(volatile char *)(p + 3 * PAGE + 1));
    say_fault("read private", p);
    CATCH(*(volatile char *)(p + 2 * PAGE));
    say_fault("own copy", p);
    say("rest of the last page: %d %d", s[PAGE + 9], s[PAGE + 10]);
    TRY(write(fd, s + 2 * PAGE, 10)); // in a system call: EFAULT
    MUST(ftruncate(fd, 4 * PAGE));
    say("grown again: %d %d", s[0], s[2 * PAGE]);
    return 0;
}
