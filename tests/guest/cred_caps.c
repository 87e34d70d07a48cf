// capget and capset: sets shrink, do not grow; bounding set and ambient set by prctl: capabilities(7).
#include "guest.h"
#include <linux/capability.h>
#include <sys/prctl.h>
int main(int argc, char **argv) {
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2], e[2];
    TRY(syscall(SYS_capget, &h, d));
    EXPECT((d[0].effective & ~d[0].permitted) == 0);
    h.version = 0x12345, TRY(syscall(SYS_capget, &h, d)), EXPECT(h.version == _LINUX_CAPABILITY_VERSION_3);
    int had = !!(d[0].permitted >> CAP_CHOWN & 1);
    d[0].effective &= ~(1U << CAP_CHOWN);
    TRY(syscall(SYS_capset, &h, d)), syscall(SYS_capget, &h, e),
        say("chown effective %d", e[0].effective >> CAP_CHOWN & 1);
    close(file_with("f", ""));
    TRY(chown("f", 1, 1));
    d[0].effective |= had << CAP_CHOWN, TRY(syscall(SYS_capset, &h, d)), TRY(chown("f", 1, 1));
    d[0].permitted &= ~(1U << CAP_CHOWN), d[0].effective &= ~(1U << CAP_CHOWN),
        TRY(syscall(SYS_capset, &h, d));
    d[0].permitted |= 1U << CAP_CHOWN, TRY(syscall(SYS_capset, &h, d));
    SHOW(prctl(PR_CAPBSET_READ, CAP_KILL)), TRY(prctl(PR_CAPBSET_DROP, CAP_KILL)),
        SHOW(prctl(PR_CAPBSET_READ, CAP_KILL)), TRY(prctl(PR_CAPBSET_READ, 99));
    SHOW(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SETUID, 0, 0));
    h.pid = 99999999, TRY(syscall(SYS_capget, &h, d));
    TRY(syscall(SYS_capget, 8, d));
    return wrong;
}
