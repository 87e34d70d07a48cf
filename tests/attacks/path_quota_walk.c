// quotactl(Q_QUOTAON) has two paths. The kernel walks the second one, of the quota file, before the device, and through
// magic links with the monitor's rights. It must not walk a path of the payload, also where the device is not found: the walk
// of a link changes the link's atime.
#include "attack.h"

#define Q_QUOTAON 0x800002u

int main(void) {
    char folder[] = "/tmp/quota-XXXXXX", link[64];
    const struct timespec old[2] = {{1000, 0}, {2000, 0}};
    struct stat before, after;
    if (!mkdtemp(folder))
        attack_broken("mkdtemp");
    snprintf(link, sizeof link, "%s/link", folder);
    if (symlink("/tmp", link) < 0 || utimensat(AT_FDCWD, link, old, AT_SYMLINK_NOFOLLOW) < 0 ||
        lstat(link, &before) < 0)
        attack_broken("link");
    syscall(SYS_quotactl, Q_QUOTAON << 8, "/no/such/device", 2, link);
    if (lstat(link, &after) < 0)
        attack_broken("lstat");
    if (before.st_atime != after.st_atime)
        attack_won("the kernel has walked the path of the quota file");
    attack_lost();
}
