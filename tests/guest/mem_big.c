// 512 MiB are written, read, partly given back and read again: mmap(2).
// krun: timeout=60
#include "guest.h"
int main(int argc, char **argv) {
    size_t size = scaled(512L << 20) & -(4UL << 20);
    unsigned char *p = MUSTP(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(p, 0x5a, size);
    size_t wrong_bytes = 0;
    for (size_t i = 0; i < size; i += 1021)
        wrong_bytes += p[i] != 0x5a;
    say("wrong %zu", wrong_bytes);
    MUST(madvise(p + size / 4, size / 2, MADV_DONTNEED));
    wrong_bytes = 0;
    for (size_t i = 0; i < size; i += 1021)
        wrong_bytes += p[i] != (i >= size / 4 && i < size / 4 * 3 ? 0 : 0x5a);
    say("wrong %zu", wrong_bytes);
    return 0;
}
