// Ten thousand single-page mappings, alternating protections, then every other one removed: mmap(2).
// krun: timeout=40
#include "guest.h"
int main(int argc, char **argv) {
    int n = scaled(10000);
    char *p = MUSTP(mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < n; i += 2)
        MUST(mprotect(p + i * PAGE, PAGE, PROT_READ));
    for (int i = 1; i < n; i += 2)
        p[i * PAGE] = i;
    int bad = 0;
    for (int i = 0; i < n; i++)
        bad += p[i * PAGE] != (char)(i & 1 ? i : 0);
    for (int i = 0; i < n; i += 4)
        MUST(munmap(p + i * PAGE, PAGE));
    for (int i = 1; i < n; i += 2)
        bad += p[i * PAGE] != (char)i;
    CATCH(*(volatile char *)(p + 2 * PAGE) = 1);
    say("wrong %d", bad);
    say_fault("read-only", p + 2 * PAGE);
    CATCH(*(volatile char *)(p + 4 * PAGE) = 1);
    say_fault("removed", p + 4 * PAGE);
    return 0;
}
