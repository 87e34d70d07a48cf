// Capability sets over execve(2): of root, with an effective set that was lowered, with SECBIT_NOROOT, of a
// user with ambient capabilities, after an execve that failed: capabilities(7)
#include "guest.h"
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

static struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};

static void sets(const char *when) {
    struct __user_cap_data_struct c[2];
    MUST(syscall(SYS_capget, &head, c));
    say("%s: effective %x %x permitted %x %x inheritable %x %x", when, c[0].effective, c[1].effective,
        c[0].permitted, c[1].permitted, c[0].inheritable, c[1].inheritable);
}

static void lower(unsigned bits, unsigned inherit) {
    struct __user_cap_data_struct c[2];
    MUST(syscall(SYS_capget, &head, c));
    c[0].effective &= ~bits;
    c[0].inheritable |= inherit & c[0].permitted;
    MUST(syscall(SYS_capset, &head, c));
}

static void fails(void) {
    static char *many[5000];
    char *big = malloc(1 << 16);
    memset(big, 'x', (1 << 16) - 1), big[(1 << 16) - 1] = 0;
    for (int i = 0; i < 4999; i++)
        many[i] = big;
    SHOW(execve("/proc/self/exe", many, many));
    sets("after a failure");
    free(big);
}

int main(int argc, char **argv) {
    const unsigned read = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH, chown = 1u << CAP_CHOWN;
    if (argc > 1)
        return sets(argv[1]), 0;
    sets("begin");
    char *how[] = {"root", "lowered", "no root", "ambient"};
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (i == 0)
                fails();
            if (i == 1)
                lower(read | chown, 0), fails();
            if (i == 2)
                TRY(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT));
            if (i == 3) {
                lower(0, read | chown);
                TRY(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0));
                TRY(prctl(PR_SET_KEEPCAPS, 1)), TRY(setuid(1000)), sets("user");
            }
            char *args[] = {argv[0], how[i], NULL};
            execve("/proc/self/exe", args, NULL);
            _exit(1);
        }
        reap(how[i], pid);
    }
    return wrong;
}
