// realloc of a big block, step by step up to 64 MiB and down (glibc uses mremap): malloc(3).
// krun: static musl
#include "guest.h"
int main(int argc, char **argv) {
    size_t size = 4096;
    unsigned char *p = malloc(size);
    memset(p, 1, size);
    for (int i = 2; size < 64 << 20; i++) {
        p = realloc(p, size * 2);
        memset(p + size, i, size);
        size *= 2;
    }
    int bad = 0;
    size_t at = 4096;
    for (int i = 1; at <= size; i++, at *= 2)
        bad += p[at / 2 - (i == 1)] != (i == 1 ? 1 : i) && i > 1, bad += p[at - 1] != i;
    say("size %zu, wrong %d", size, bad);
    p = realloc(p, 8192);
    say("shrunk: %d %d", p[0], p[8191]);
    return 0;
}
