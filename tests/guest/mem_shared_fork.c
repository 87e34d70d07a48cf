// Shared anonymous memory is one and the same in parent and child; atomic additions of both arrive: mmap(2).
// krun: static musl
#include "guest.h"
int main(int argc, char **argv) {
    int *p = MUSTP(mmap(NULL, 3 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pid_t c[3];
    for (int k = 0; k < 3; k++)
        c[k] =
            CHILD(for (int i = 0; i < 1000; i++) __atomic_add_fetch(&p[i % 7 * 100000], 1, __ATOMIC_SEQ_CST));
    for (int i = 0; i < 1000; i++)
        __atomic_add_fetch(&p[i % 7 * 100000], 1, __ATOMIC_SEQ_CST);
    int sum = 0;
    for (int k = 0; k < 3; k++)
        waitpid(c[k], NULL, 0);
    for (int i = 0; i < 7; i++)
        sum += p[i * 100000];
    say("sum %d", sum);
    return 0;
}
