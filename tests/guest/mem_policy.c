// NUMA policies as far as one node shows them: mbind(2), set_mempolicy(2), get_mempolicy(2), move_pages(2),
// migrate_pages(2).
#include "guest.h"
enum { HOME_NODE = 450 };
int main(int argc, char **argv) {
    unsigned long mask[16] = {1}, far[2] = {1UL << 40, 0};
    int mode = -1, status[2];
    char *p = pages(4);
    if (SHOW(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0)) < 0)
        return 0; /* a kernel without NUMA */
    SHOW(mode);
    SHOW(syscall(SYS_mbind, p, 4 * PAGE, 2, mask, 64, 0)),
        SHOW(syscall(SYS_mbind, p, 4 * PAGE, 2, far, 64, 0)),
        SHOW(syscall(SYS_mbind, p, 4 * PAGE, 99, mask, 64, 0));
    SHOW(syscall(SYS_mbind, p + 1, PAGE, 2, mask, 64, 0)),
        SHOW(syscall(SYS_mbind, p, PAGE, 2, (void *)8, 64, 0)),
        SHOW(syscall(SYS_mbind, (void *)PAGE, PAGE, 0, NULL, 0, 0));
    p[0] = 1;
    SHOW(syscall(SYS_get_mempolicy, &mode, mask, 1024, p, 2)), SHOW(mode), SHOW((long)mask[0]);
    SHOW(syscall(SYS_get_mempolicy, &mode, NULL, 0, p, 1 | 2)), SHOW(mode),
        SHOW(syscall(SYS_get_mempolicy, &mode, NULL, 0, (void *)PAGE, 2));
    SHOW(syscall(SYS_get_mempolicy, (void *)8, NULL, 0, NULL, 0));
    SHOW(syscall(SYS_set_mempolicy, 1, mask, 64)), SHOW(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0)),
        SHOW(mode);
    reap("child keeps it", CHILD(SHOW(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0)), SHOW(mode)));
    SHOW(syscall(SYS_set_mempolicy, 0, NULL, 0)), SHOW(syscall(SYS_set_mempolicy, 2, NULL, 0)),
        SHOW(syscall(SYS_set_mempolicy, 2, (void *)8, 64));
    SHOW(syscall(SYS_get_mempolicy, NULL, mask, 1024, NULL, 4)), SHOW((long)mask[0]);
    void *at[2] = {p, pages(1)};
    MUST(munmap(at[1], PAGE));
    int nodes[2] = {0, 0};
    SHOW(syscall(SYS_move_pages, 0, 2L, at, NULL, status, 0)), SHOW(status[0]),
        say("not mapped: %s", errno_name(-status[1]));
    SHOW(syscall(SYS_move_pages, 0, 2L, at, nodes, status, 2)), SHOW(status[0]),
        SHOW(syscall(SYS_move_pages, 0, 2L, at, nodes, status, 8)),
        SHOW(syscall(SYS_move_pages, 0, 2L, (void *)8, nodes, status, 2));
    SHOW(syscall(SYS_move_pages, 999999999, 2L, at, NULL, status, 0));
    mask[0] = 1;
    SHOW(syscall(SYS_migrate_pages, 0, 64L, mask, mask)),
        SHOW(syscall(SYS_migrate_pages, 0, 64L, (void *)8, mask));
    SHOW(syscall(HOME_NODE, p, 4 * PAGE, 0, 0)), SHOW(syscall(HOME_NODE, p, 4 * PAGE, 0, 1)),
        SHOW(syscall(HOME_NODE, p, 4 * PAGE, 9999, 0));
    return wrong;
}
