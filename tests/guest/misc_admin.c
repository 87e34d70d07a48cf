// Calls of administrators as an ordinary user sees them: what asks only is answered, what changes something
// is refused alike.
#include "guest.h"
#include <sys/timex.h>
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
enum { LSM_GET = 459, LSM_SET, LSM_LIST };
int main(int argc, char **argv) {
    char buf[4096] = "";
    struct timex tx = {0};
    EXPECT(adjtimex(&tx) >= 0), EXPECT(clock_adjtime(CLOCK_REALTIME, &tx) >= 0);
    SHOW(clock_adjtime(CLOCK_MONOTONIC, &tx)), SHOW(syscall(SYS_adjtimex, 8));
    uint32_t size = sizeof buf;
    SHOW(syscall(LSM_LIST, buf, &size, 0) > 0), SHOW(syscall(LSM_LIST, buf, &size, 1)),
        SHOW(syscall(LSM_LIST, 8, &size, 0)), SHOW(syscall(LSM_LIST, buf, 8, 0));
    size = sizeof buf;
    TRY(syscall(LSM_GET, 100, buf, &size, 0)), SHOW(syscall(LSM_GET, 0, buf, &size, 0)),
        SHOW(syscall(LSM_SET, 100, buf, 4, 0));
    SHOW(syscall(SYS_restart_syscall));
    struct robust_list_head *head = NULL;
    size_t len = 0;
    SHOW(syscall(SYS_get_robust_list, 0, &head, &len)), SHOW((long)len), EXPECT(head != NULL),
        SHOW(syscall(SYS_get_robust_list, 999999999, &head, &len)),
        SHOW(syscall(SYS_set_robust_list, head, 5L));
    int me = (int)MUST(syscall(SYS_pidfd_open, getpid(), 0));
    SHOW(syscall(SYS_process_mrelease, me, 0)), SHOW(syscall(SYS_process_mrelease, me, 1)),
        SHOW(syscall(SYS_process_mrelease, 900, 0));
    SHOW(syscall(SYS_pidfd_getfd, me, 0, 1)), SHOW(syscall(SYS_pidfd_getfd, 900, 0, 0)),
        SHOW(syscall(SYS_pidfd_getfd, me, 900, 0));
    int again = (int)syscall(SYS_pidfd_getfd, me, me, 0);
    EXPECT(again > me), SHOW(fcntl(again, F_GETFD));
    SHOW(syscall(SYS_add_key, "user", "krun:test", "payload", 7, -1) > 0),
        SHOW(syscall(SYS_request_key, "user", "krun:test", NULL, 0) > 0),
        SHOW(syscall(SYS_request_key, "user", "krun:none", NULL, 0));
    SHOW(syscall(SYS_add_key, "none", "x", "y", 1, -1)),
        SHOW(syscall(SYS_add_key, (char *)8, "x", "y", 1, -1)),
        SHOW(syscall(SYS_add_key, "user", "x", (char *)8, 1, -1));
    if (!getuid())
        MUST(setresuid(1000, 1000, 1000));
    struct timespec now = {1, 0};
    SHOW(clock_settime(CLOCK_REALTIME, &now)), SHOW(clock_settime(CLOCK_MONOTONIC, &now)),
        SHOW(syscall(SYS_clock_settime, CLOCK_REALTIME, 8));
    tx.modes = ADJ_TICK;
    SHOW(adjtimex(&tx)), SHOW(syscall(SYS_swapoff, "x")), SHOW(setdomainname("x", 1)),
        SHOW(syscall(SYS_quotactl, 0x80000700, "none", 0, buf));
    SHOW(syscall(SYS_open_by_handle_at, AT_FDCWD, buf, 0));
    SHOW(syscall(SYS_fsopen, "tmpfs", 0)), SHOW(syscall(SYS_fspick, AT_FDCWD, "/", 0)),
        SHOW(syscall(SYS_move_mount, AT_FDCWD, "/", AT_FDCWD, "/", 0)),
        SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, buf, 32)),
        SHOW(syscall(SYS_open_tree, AT_FDCWD, "/", 1)), SHOW(syscall(467, AT_FDCWD, "/", 1, buf, 32));
    return wrong;
}
