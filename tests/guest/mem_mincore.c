// mincore(2) tells resident pages; holes give ENOMEM, bad vectors EFAULT.
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(8);
    unsigned char v[8] = "zzzzzzzz";
    madvise(p, 8 * PAGE, MADV_NOHUGEPAGE);
    p[0] = p[3 * PAGE] = 1;
    TRY(mincore(p, 8 * PAGE, v));
    say("%d%d%d%d%d%d%d%d", v[0] & 1, v[1] & 1, v[2] & 1, v[3] & 1, v[4] & 1, v[5] & 1, v[6] & 1, v[7] & 1);
    TRY(mincore(p + 1, PAGE, v));
    TRY(mincore(p, 8 * PAGE, (void *)8));
    munmap(p + 4 * PAGE, PAGE);
    TRY(mincore(p, 8 * PAGE, v));
    return 0;
}
