/* SPDX-License-Identifier: Apache-2.0
 *
 * landlock(7): rulesets and domains are the host kernel's. A guest thread is a host thread, its opens,
 * renames, binds and signals are host calls that it makes itself, so the domain that it enters binds them as
 * it would bind the program's own. Three things are not as natively, and are mended here:
 *
 * - execve: the payload's program is only read by its monitor, so the right to execute would never be asked
 * for. kr_may_execute() (process/exec.c) asks the kernel by AT_EXECVE_CHECK, which Linux has since 6.14; where
 * it has not, a domain's promise would be untrue and landlock is refused as by a kernel without it.
 *
 * - Our files: the monitor reads its own procfs and executes its own file later on, inside the domain. Each
 * domain gets a rule for exactly these two. Neither is in the payload's reach by a path; a procfs that is
 * (the container has no instance of its own) gets none: there the payload's own rules say what may be read.
 *
 * - Who may: no_new_privs is what the payload has of it, not the monitor's.
 *
 * State: whether the kernel has AT_EXECVE_CHECK, found once. No locks.
 */
#include "table.h"
#include "../process/exec.h"
#include "../filter/jail.h"
#include "../process/nnp.h"
#include <linux/fcntl.h>
#include <linux/landlock.h>
#include <linux/stat.h>

struct path_rule { /* struct landlock_path_beneath_attr */
    u64 allowed;
    s32 parent;
} __attribute__((packed));

struct port_rule { /* struct landlock_net_port_attr */
    u64 allowed, port;
};
#define RULE_NET_PORT 2

long sys_landlock_create_ruleset(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_execve_checks() ? kr_forward(444, a) : -EOPNOTSUPP;
}

long sys_landlock_add_rule(struct kr_task *t, const u64 a[6]) {
    (void)t;
    union {
        struct path_rule path;
        struct port_rule port;
    } rule;
    u64 arg = KR_BAD_PTR; /* of a type that nobody knows yet: the kernel does not get as far as reading it */
    if (!kr_execve_checks())
        return -EOPNOTSUPP;
    if ((u32)a[1] == LANDLOCK_RULE_PATH_BENEATH && kr_copy_in(&rule.path, a[2], sizeof rule.path) == 0) {
        rule.path.parent = kr_guest_fd((u32)rule.path.parent);
        arg = (u64)&rule;
    } else if ((u32)a[1] == RULE_NET_PORT && kr_copy_in(&rule.port, a[2], sizeof rule.port) == 0) {
        arg = (u64)&rule;
    }
    return kr_call_intr(445, a[0], a[1], arg, a[3], 0, 0);
}

/* Lets the domain made from `ruleset` have `right` (one bit) on what fd names. A ruleset that does not handle
 * the right needs no rule (EINVAL), files of the kernel's own mounts (a memfd) neither (EBADFD); what else is
 * wrong with the ruleset the kernel says itself in a moment. 0 or -ENOMEM. */
static long permit(u64 ruleset, int fd, u64 right) {
    struct path_rule rule = {.allowed = right, .parent = fd};
    return kr_sys4(445, (u32)ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == -ENOMEM ? -ENOMEM : 0;
}

/* Whether the monitor's procfs is an instance that the payload cannot name. */
static int own_procfs(void) {
    struct statx ours, theirs;
    if (kr_boot.fd_proc < 0 || kr_sys5(__NR_statx, kr_boot.fd_proc, "", AT_EMPTY_PATH, STATX_INO, &ours) < 0)
        return 0;
    return kr_sys5(__NR_statx, AT_FDCWD, "/proc", 0, STATX_INO, &theirs) < 0 ||
           ours.stx_dev_major != theirs.stx_dev_major || ours.stx_dev_minor != theirs.stx_dev_minor;
}

long sys_landlock_restrict_self(struct kr_task *t, const u64 a[6]) {
    if (!kr_execve_checks())
        return -EOPNOTSUPP;
    if (!kr_nnp_or_admin(t))
        return -EPERM;
    long r = own_procfs() ? permit(a[0], kr_boot.fd_proc, LANDLOCK_ACCESS_FS_READ_FILE) : 0;
    if (r == 0)
        r = permit(a[0], kr_boot.fd_exe, LANDLOCK_ACCESS_FS_READ_FILE);
    if (r == 0)
        r = permit(a[0], kr_boot.fd_exe, LANDLOCK_ACCESS_FS_EXECUTE);
    return r < 0 ? r : kr_forward(446, a);
}
