// rseq(2) is either registered by the C library or refused cleanly; registering again fails.
#include "guest.h"
int main(int argc, char **argv) {
    static struct {
        uint32_t cpu_start, cpu;
        uint64_t cs;
        uint32_t flags, pad[3];
    } area __attribute__((aligned(32)));
    long r = syscall(SYS_rseq, &area, sizeof(area), 0, 0x53053053);
    EXPECT(r == 0 || errno == ENOSYS || errno == EINVAL || errno == EPERM || errno == EBUSY);
    EXPECT(sched_getcpu() >= 0);
    return wrong;
}
