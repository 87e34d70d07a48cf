// After fork(2) writes of parent and child stay apart, in data, heap, stack and big mappings.
// krun: static musl
#include "guest.h"
static int data = 1;
int main(int argc, char **argv) {
    int stack = 1, *heap = malloc(4);
    char *big = pages(2048);
    *heap = 1;
    memset(big, 1, 2048 * PAGE);
    int a[2], b[2], sum = 0;
    MUST(pipe(a)), MUST(pipe(b));
    pid_t c = CHILD({
        data = stack = *heap = 2;
        for (int i = 0; i < 2048; i += 2)
            big[i * PAGE] = 2;
        write(a[1], "", 1);
        read(b[0], &a, 1);
        for (int i = 0; i < 2048; i++)
            sum += big[i * PAGE];
        say("child %d %d %d, sum %d", data, stack, *heap, sum);
    });
    char x;
    read(a[0], &x, 1);
    for (int i = 0; i < 2048; i += 3)
        big[i * PAGE] = 3;
    write(b[1], "", 1);
    reap("child", c);
    for (int i = 0; i < 2048; i++)
        sum += big[i * PAGE];
    say("parent %d %d %d, sum %d", data, stack, *heap, sum);
    return 0;
}
