// mmap(2) with bad arguments: which errors.
#include "guest.h"
int main(int argc, char **argv) {
    int rw = file_with("f", "x"), ro = MUST(open("f", O_RDONLY)), wo = MUST(open("f", O_WRONLY)), p[2];
    MUST(pipe(p));
    TRY(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 99, 0));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, wo, 0));
    TRY(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, ro, 0));
    TRY(mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE, ro, 0));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, rw, 1));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, p[0], 0));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, MUST(open(".", O_RDONLY)), 0));
    TRY(mmap(NULL, -PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TRY(mmap(NULL, 1UL << 47, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    TRY(mmap((void *)0xffff800000000000, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    TRY(mmap((void *)0x7ffffffff000, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    TRY(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x4000000, rw, 0));
    return 0;
}
