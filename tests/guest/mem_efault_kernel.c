// Addresses no program has (kernel, non-canonical, top of the user half): EFAULT from system calls.
#include "guest.h"
#include <sys/uio.h>
int main(int argc, char **argv) {
    static const unsigned long at[] = {0x7ffffffff000,
                                       0x800000000000,
                                       0x00ff000000000000,
                                       0x8000000000000000,
                                       0xffff800000000000,
                                       0xffff888000000000,
                                       0xffffffff81000000,
                                       0xffffffffff600000,
                                       0xfffffffffffff000,
                                       0xffffffffffffffff,
                                       0,
                                       8,
                                       4095};
    int zero = MUST(open("/dev/zero", O_RDWR)), file = file_with("f", "abc"), p[2];
    MUST(pipe(p));
    for (size_t i = 0; i < COUNT(at); i++) {
        struct iovec v = {(void *)at[i], 8};
        int r[6] = {read(zero, (void *)at[i], 8) == -1 && errno == EFAULT,
                    write(p[1], (void *)at[i], 8) == -1 && errno == EFAULT,
                    pread(file, (void *)at[i], 3, 0) == -1 && errno == EFAULT,
                    writev(p[1], &v, 1) == -1 && errno == EFAULT,
                    open((char *)at[i], O_RDONLY) == -1 && errno == EFAULT,
                    syscall(SYS_uname, at[i]) == -1 && errno == EFAULT};
        say("0x%lx: %d%d%d%d%d%d", at[i], r[0], r[1], r[2], r[3], r[4], r[5]);
    }
    return 0;
}
