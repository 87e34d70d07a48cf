// Unknown system call numbers: ENOSYS, high bits, negative, x32 numbers: syscall(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    static const long numbers[] = {
        387, 400, 999, 511, 0x7fffffff, -1, -2, 0x100000000 | SYS_getpid, 0x40000000 | SYS_getpid};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        long r = syscall(numbers[i], 1, 2, 3, 4, 5, 6);
        say("%lx: %s", numbers[i], r == getpid() ? "own pid" : r == -1 ? errno_name(errno) : "?");
    }
    TRY(syscall(SYS_create_module)), TRY(syscall(SYS_uselib, "x")), TRY(syscall(SYS_afs_syscall)),
        TRY(syscall(SYS_getpmsg)), TRY(syscall(SYS_vserver));
    return 0;
}
