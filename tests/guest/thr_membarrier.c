// membarrier(2): query, registration, private expedited.
#include "guest.h"
int main(int argc, char **argv) {
    long have = syscall(SYS_membarrier, 0, 0, 0);
    if (have < 0)
        return say("membarrier: %s", errno_name(errno)), 0;
    EXPECT((have & 0x19) == 0x19);
    TRY(syscall(SYS_membarrier, 8, 0, 0));
    TRY(syscall(SYS_membarrier, 16, 0, 0));
    TRY(syscall(SYS_membarrier, 8, 0, 0));
    TRY(syscall(SYS_membarrier, 1 << 20, 0, 0));
    return wrong;
}
