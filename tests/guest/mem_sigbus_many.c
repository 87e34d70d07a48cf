// krun: timeout=60
// Thousands of SIGBUS beyond the end of a file leave no memory behind.
#include "guest.h"
static sigjmp_buf again;
static void handler(int sig) { siglongjmp(again, 1); }
static long resident(void) { // pages
    long size = 0, rss = 0;
    sscanf(slurp("/proc/self/statm"), "%ld %ld", &size, &rss);
    return rss;
}
int main(int argc, char **argv) {
    int fd = MUST(memfd_create("short", 0)), caught = 0;
    MUST(ftruncate(fd, 8192));
    volatile char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(ftruncate(fd, 0));
    signal(SIGBUS, handler);
    long before = resident();
    for (volatile int i = 0; i < 3000; i++)
        if (sigsetjmp(again, 1))
            caught++;
        else
            p[4096] = 1;
    EXPECT(caught == 3000);
    EXPECT(resident() - before < 4096); // 16 MiB
    return wrong;
}
