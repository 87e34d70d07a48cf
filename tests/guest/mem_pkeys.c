// Memory protection keys, or a clean refusal: pkeys(7).
#include "guest.h"
int main(int argc, char **argv) {
    long key = syscall(SYS_pkey_alloc, 0, 0);
    EXPECT(key > 0 || errno == ENOSPC || errno == ENOSYS || errno == EINVAL);
    char *p = pages(1);
    TRY(syscall(SYS_pkey_mprotect, p, PAGE, PROT_READ | PROT_WRITE, -1));
    p[0] = 1;
    EXPECT(key <= 0 || syscall(SYS_pkey_free, key) == 0);
    TRY(syscall(SYS_pkey_free, 1000));
    return wrong;
}
