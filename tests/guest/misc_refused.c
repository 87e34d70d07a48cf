// Calls for administrators and debuggers either work as natively or are refused with an honest errno.
#include "guest.h"
#include <sys/ptrace.h>
static int refused(long r) { return r >= 0 || errno == EPERM || errno == ENOSYS || errno == EACCES; }
int main(int argc, char **argv) {
    if (!getuid())
        MUST(setresuid(1000, 1000, 1000));
    char params[120] = "";
    EXPECT(refused(syscall(SYS_io_uring_setup, 1, params)));
    EXPECT(refused(syscall(SYS_bpf, 0, params, 64)) || errno == EINVAL);
    EXPECT(refused(syscall(SYS_perf_event_open, params, 0, -1, -1, 0)) || errno == E2BIG || errno == EFAULT);
    EXPECT(refused(syscall(SYS_kexec_load, 0, 0, 0, 0)));
    EXPECT(refused(syscall(SYS_kexec_file_load, -1, -1, 0, "", 0)));
    EXPECT(refused(syscall(SYS_init_module, params, 0, "")));
    EXPECT(refused(syscall(SYS_finit_module, 0, "", 0)));
    EXPECT(refused(syscall(SYS_delete_module, "x", 0)));
    EXPECT(refused(syscall(SYS_keyctl, 0, -3, 0)) || errno == ENOKEY);
    TRY(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL));
    TRY(syscall(SYS_umount2, "/proc", 0));
    TRY(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
    TRY(syscall(SYS_sethostname, "x", 1));
    TRY(syscall(SYS_settimeofday, &(struct timeval){1, 0}, NULL));
    TRY(syscall(SYS_swapon, "x", 0));
    TRY(syscall(SYS_acct, "x"));
    TRY(syscall(SYS_syslog, 3, params, 100));
    TRY(syscall(SYS_pivot_root, ".", "."));
    EXPECT(syscall(SYS_iopl, 3) == -1 && refused(-1));
    EXPECT(syscall(SYS_ioperm, 0x80, 1, 1) == -1 && refused(-1));
    TRY(syscall(SYS_vhangup));
    EXPECT(refused(ptrace(PTRACE_TRACEME, 0, 0, 0)));
    return wrong;
}
