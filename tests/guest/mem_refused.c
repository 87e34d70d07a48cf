// Calls that give access behind the program's back either work or are refused cleanly: userfaultfd(2).
#include "guest.h"
#include <sys/uio.h>
static int clean(long r) { return r >= 0 || errno == EPERM || errno == ENOSYS; }
int main(int argc, char **argv) {
    char a[4] = "abc", b[4] = "";
    struct iovec l = {b, 4}, r = {a, 4};
    long f = syscall(SYS_userfaultfd, O_CLOEXEC);
    EXPECT(clean(f));
    long n = process_vm_readv(getpid(), &l, 1, &r, 1, 0);
    EXPECT(clean(n) && (n < 0 || !strcmp(a, b)));
    EXPECT(clean(syscall(SYS_memfd_secret, 0)));
    EXPECT(clean(syscall(SYS_remap_file_pages, 0, 0, 0, 0, 0)) || errno == EINVAL);
    return wrong;
}
