/* SPDX-License-Identifier: Apache-2.0
 *
 * landlock(7): the host kernel has the rulesets and domains. A guest thread is a host thread, and it makes
 * the host calls for its opens, renames, binds and signals itself. So the domain that it enters restricts
 * these calls as on Linux. Four points differ, and this file handles them:
 *
 *   execve          The monitor only reads the payload's program, so the kernel would never check the
 *                   right to execute. The monitor asks the kernel with AT_EXECVE_CHECK (process/exec.c), which Linux
 *                   has since 6.14. Without it a domain would not restrict execve: the answer is EOPNOTSUPP,
 *                   as from a kernel with landlock disabled.
 *   monitor's files The monitor reads its own procfs, and executes its own file, inside the domain. Each
 *                   domain gets a rule for exactly these two. No path of the payload leads to either. A procfs that
 *                   the payload can reach (the container has no instance of its own) gets no rule: the
 *                   payload's rules decide what may be read there.
 *   no_new_privs    The payload's no_new_privs counts, not the monitor's (process/nnp.h).
 *   /proc           The kernel's rule of who may look into another process cannot see what another monitor answers
 *                   (view/ask.h). So each domain has a name, by which monitors apply that rule (process/domain.h).
 *
 * State: whether the kernel has AT_EXECVE_CHECK, found once. No locks.
 */
#include "table.h"
#include "../process/domain.h"
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
    return kr_execve_checks() ? kr_forward(__NR_landlock_create_ruleset, a) : -EOPNOTSUPP;
}

long sys_landlock_add_rule(struct kr_task *t, const u64 a[6]) {
    (void)t;
    union {
        struct path_rule path;
        struct port_rule port;
    } rule;
    u64 arg = KR_BAD_PTR; /* an unknown type: the kernel refuses it before it reads the argument */
    if (!kr_execve_checks())
        return -EOPNOTSUPP;
    if ((u32)a[1] == LANDLOCK_RULE_PATH_BENEATH && kr_copy_in(&rule.path, a[2], sizeof rule.path) == 0) {
        rule.path.parent = kr_guest_fd((u32)rule.path.parent);
        arg = (u64)&rule;
    } else if ((u32)a[1] == RULE_NET_PORT && kr_copy_in(&rule.port, a[2], sizeof rule.port) == 0) {
        arg = (u64)&rule;
    }
    return kr_call_intr(__NR_landlock_add_rule, a[0], a[1], arg, a[3], 0, 0);
}

/* Adds a rule to `ruleset`: `right` (one bit) on the object of fd. A ruleset that does not handle the right
 * needs no rule (EINVAL), nor does a file of a kernel-internal mount such as a memfd (EBADFD). For other
 * errors of the ruleset, landlock_restrict_self(2) gives the errno. 0 or -ENOMEM. */
static long permit(u64 ruleset, int fd, u64 right) {
    struct path_rule rule = {.allowed = right, .parent = fd};
    return kr_sys4(__NR_landlock_add_rule, (u32)ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == -ENOMEM
               ? -ENOMEM
               : 0;
}

/* Whether the monitor's procfs is another instance than the container's /proc. */
static int own_procfs(void) {
    struct statx ours, theirs;
    if (kr_boot.fd_proc < 0 || kr_sys5(__NR_statx, kr_boot.fd_proc, "", AT_EMPTY_PATH, STATX_INO, &ours) < 0)
        return 0;
    return kr_sys5(__NR_statx, AT_FDCWD, "/proc", 0, STATX_INO, &theirs) < 0 ||
           ours.stx_dev_major != theirs.stx_dev_major || ours.stx_dev_minor != theirs.stx_dev_minor;
}

/* The flags of Linux 6.15: they concern the audit log. LANDLOCK_RESTRICT_SELF_TSYNC of later kernels puts other threads into the
 * domain, while they may be making a question or a thread. */
#define RESTRICT_FLAGS 7u
#define NO_RULESET (-1) /* changes the log only, and makes no domain */

long sys_landlock_restrict_self(struct kr_task *t, const u64 a[6]) {
    if (!kr_execve_checks())
        return -EOPNOTSUPP;
    if ((u32)a[1] & ~RESTRICT_FLAGS) {
        kr_log("landlock_restrict_self: flags 0x%x are not served (LANDLOCK_RESTRICT_SELF_TSYNC)", (u32)a[1]);
        return -EINVAL;
    }
    if (!kr_nnp_or_admin(t))
        return -EPERM;
    long r = own_procfs() ? permit(a[0], kr_boot.fd_proc, LANDLOCK_ACCESS_FS_READ_FILE) : 0;
    if (r == 0)
        r = permit(a[0], kr_boot.fd_exe, LANDLOCK_ACCESS_FS_READ_FILE);
    if (r == 0)
        r = permit(a[0], kr_boot.fd_exe, LANDLOCK_ACCESS_FS_EXECUTE);
    if (r == 0)
        r = kr_forward(__NR_landlock_restrict_self, a);
    if (r == 0 && (s32)a[0] != NO_RULESET)
        kr_domain_enter(t);
    return r;
}
