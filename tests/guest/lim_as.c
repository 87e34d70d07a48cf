// RLIMIT_AS and RLIMIT_DATA make mmap and brk fail with ENOMEM: getrlimit(2).
#include "guest.h"
int main(int argc, char **argv) {
    struct rlimit r, old;
    getrlimit(RLIMIT_AS, &old), r = old;
    r.rlim_cur = 200 << 20, TRY(setrlimit(RLIMIT_AS, &r));
    TRY(mmap(NULL, 400 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char *p = mmap(NULL, 50 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(p != MAP_FAILED), p[49 << 20] = 1;
    EXPECT(malloc(400 << 20) == NULL && errno == ENOMEM);
    TRY(mremap(p, 50 << 20, 300 << 20, MREMAP_MAYMOVE));
    TRY(setrlimit(RLIMIT_AS, &old)),
        TRY(mmap(NULL, 400 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    getrlimit(RLIMIT_DATA, &old), r = old, r.rlim_cur = 64 << 20, TRY(setrlimit(RLIMIT_DATA, &r)),
                                  EXPECT(sbrk(100 << 20) == (void *)-1);
    return wrong;
}
