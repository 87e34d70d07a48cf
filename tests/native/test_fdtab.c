/* SPDX-License-Identifier: Apache-2.0
 * vmm/fdtab.c: hidden descriptors stay hidden, stay open, and get out of the way. Sources: fdtab.c kr_alloc.c
 */
#include "harness.h"
#include "vmm/fdtab.h"
#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/resource.h>

static int open_null(void) { return (int)kr_sys3(__NR_open, "/dev/null", O_RDONLY, 0); }
static int is_open(int fd) { return kr_sys3(__NR_fcntl, fd, F_GETFD, 0) >= 0; }
static void limits(u64 soft, u64 hard) {
    u64 lim[2] = {soft, hard};
    CHECK_EQ(kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, lim, 0), 0);
}

static void above_soft_limit(void) {
    int h, h2;
    limits(1024, 4096);
    int fd = open_null();
    CHECK(kr_fd_hide(fd, 1, &h) >= 1024);
    CHECK(!is_open(fd));
    CHECK(is_open(h));
    CHECK_EQ(kr_sys3(__NR_fcntl, h, F_GETFD, 0), FD_CLOEXEC);
    CHECK(kr_fd_hidden((u64)h));
    CHECK(kr_fd_hidden(0xffffffff00000000ULL | (u64)h)); /* the kernel looks at 32 bits */
    CHECK(!kr_fd_hidden((u64)fd));
    CHECK(!kr_fd_hidden((u64)h + 1));
    CHECK(!kr_fd_hidden((u64)(s64)-100));
    u64 lim[2];
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, lim);
    CHECK_EQ(lim[0], 1024); /* came back */
    fd = open_null();
    CHECK(kr_fd_hide(fd, 0, &h2) > h);
    CHECK_EQ(kr_sys3(__NR_fcntl, h2, F_GETFD, 0), 0);
    int list[8];
    CHECK_EQ(kr_fd_list(list, 8), 2);
    CHECK_EQ(list[0], h);
    CHECK_EQ(list[1], h2);

    /* A monitor that an execve started finds its descriptors where they were. */
    int again = h2, h3;
    kr_fd_drop(&h2);
    CHECK_EQ(h2, -1);
    fd = open_null();
    limits(4096, 4096);
    CHECK_EQ(kr_sys3(__NR_dup3, fd, again, 0), again);
    limits(1024, 4096);
    CHECK_EQ(kr_fd_hide(again, 1, &h3), again);
    CHECK(is_open(again));

    int was = h;
    CHECK_EQ(kr_fd_evict(h), 0);
    CHECK(h != was && is_open(h) && !is_open(was) && kr_fd_hidden((u64)h) && !kr_fd_hidden((u64)was));
    kr_fd_drop(&h);
    kr_fd_drop(&h3);
    kr_sys1(__NR_close, fd);
    CHECK_EQ(kr_fd_list(list, 8), 0);
}

static void below_hard_limit(void) {
    int h[100], n = 0;
    limits(256, 256);
    for (int i = 0; i < 100; i++) {
        int fd = open_null();
        CHECK(kr_fd_hide(fd, 1, &h[i]) >= 0);
        CHECK(h[i] >= 96);
        n += is_open(h[i]);
    }
    CHECK_EQ(n, 100);
    for (int i = 0; i < 100; i++)
        kr_fd_drop(&h[i]);
}

static void close_ranges(void) {
    int h[3], mine[40];
    limits(256, 256);
    for (int i = 0; i < 3; i++)
        kr_fd_hide(open_null(), 1, &h[i]);
    for (int i = 0; i < 40; i++)
        mine[i] = (int)kr_sys3(__NR_fcntl, 0, F_DUPFD, h[0] - 10 + i);
    CHECK_EQ(kr_fd_close_range(3, ~0ULL, 0), 0);
    for (int i = 0; i < 3; i++)
        CHECK(is_open(h[i]));
    for (int i = 0; i < 40; i++)
        CHECK(!is_open(mine[i]));
    CHECK_EQ(kr_fd_close_range((u64)h[0], (u64)h[2], CLOSE_RANGE_CLOEXEC), 0);
    CHECK_EQ(kr_fd_close_range(7, 5, 0), -EINVAL);
    CHECK_EQ(kr_fd_close_range(3, 5, 64), -EINVAL);
    for (int i = 0; i < 3; i++) {
        CHECK(is_open(h[i]));
        kr_fd_drop(&h[i]);
    }
}

/* While a vfork child has a copy of the table, numbers are neither moved nor forgotten. */
static void copies(void) {
    int h;
    limits(1024, 4096);
    kr_fd_hide(open_null(), 1, &h);
    int n = h;
    kr_fd_copy_begin();
    CHECK_EQ(kr_fd_evict(h), -EBUSY);
    kr_fd_drop(&h);
    CHECK_EQ(h, -1);
    CHECK(kr_fd_hidden((u64)n));
    kr_fd_copy_end();
    CHECK(!kr_fd_hidden((u64)n));
    CHECK(!is_open(n));
}

static void fork_child(void) {
    int gone, kept;
    kr_fd_hide(open_null(), KR_FD_FORK_DROPS, &gone);
    kr_fd_hide(open_null(), 0, &kept);
    int n = gone;
    kr_fd_before_fork();
    kr_fd_after_fork();
    CHECK_EQ(gone, -1);
    CHECK(!is_open(n));
    CHECK(is_open(kept));
    CHECK(kr_fd_hidden((u64)kept));
    kr_fd_drop(&kept);
}

void test_main(void) {
    above_soft_limit();
    copies();
    fork_child();
    below_hard_limit(); /* lowers the hard limit for good */
    close_ranges();
}
