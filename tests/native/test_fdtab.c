/* SPDX-License-Identifier: Apache-2.0
 * machine/fdslot.c, fdlimit.c, fdtab.c, fdname.c: fixed numbers stay, slots are always occupied, dynamic numbers are hidden and stay open.
 * Sources: fdtab.c fdname.c fdslot.c fdlimit.c kr_alloc.c
 */
#include "harness.h"
#include "machine/fdtab.h"
#include "lib/above.h"
#include "lib/kr_linux.h"
#include "machine/mm.h"
#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/resource.h>

#define CLOEXEC 02000000 /* O_CLOEXEC */

static struct kr_task *task;
static u32 base;
#define SLOT0 (base + KR_FD_FIXED)
#define PLUG (SLOT0 + KR_FD_SLOTS)
#define BEHIND (PLUG + 1)

static int is_dead;
int kr_holder_gone(u64 word) { return word == 4711 && is_dead; }

static int open_null(void) { return (int)kr_sys3(__NR_open, "/dev/null", O_RDONLY, 0); }
static int is_open(int fd) { return kr_sys3(__NR_fcntl, fd, F_GETFD, 0) >= 0; }
static int flags_of(int fd) { return (int)kr_sys3(__NR_fcntl, fd, F_GETFD, 0); }
static void limits(u64 soft, u64 hard) {
    u64 lim[2] = {soft, hard};
    CHECK_EQ(kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, lim, 0), 0);
}
static u64 soft_limit(void) {
    u64 lim[2];
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, lim);
    return lim[0];
}
static u32 inode_mode(int fd) {
    u64 st[18];
    CHECK_EQ(kr_sys2(__NR_fstat, fd, st), 0);
    return (u32)st[3];
}
static u64 inode(int fd) {
    u64 st[18];
    CHECK_EQ(kr_sys2(__NR_fstat, fd, st), 0);
    return st[1];
}
static int is_plug(u32 fd) { return (inode_mode((int)fd) & S_IFMT) == S_IFLNK; }
static void others(int share) { task->proc->flags = share ? KR_PROCF_SHARED_FILES : 0; }

/* The first monitor: whatever it was given stands at fixed numbers; the others and the slots are occupied. */
static void fixed(void) {
    int a = open_null(), b = open_null(), was = a, number;
    int plug = (int)kr_sys3(__NR_open, "/proc/self", O_PATH | O_NOFOLLOW | CLOEXEC, 0);
    int *const fd[KR_FD_FIXED] = {[KR_FD_AT_KVM] = &a, [KR_FD_AT_BOARD] = &b};
    limits(1024, 4096);
    CHECK(!kr_fd_hidden(0) && !kr_fd_hidden(3));
    CHECK_EQ(kr_fd_fix(fd, plug, &number), 0);
    base = kr_fd_base();
    CHECK_EQ(base, 1088);
    CHECK_EQ(soft_limit(), 1024); /* came back */
    CHECK_EQ(a, (int)base + KR_FD_AT_KVM);
    CHECK_EQ(b, (int)base + KR_FD_AT_BOARD);
    CHECK(!is_open(plug) && is_plug(PLUG));
    CHECK(!is_open(was));
    for (u32 i = base; i < BEHIND; i++) {
        CHECK(is_open((int)i) && kr_fd_hidden(i));
        CHECK_EQ(flags_of((int)i), 0); /* for the next monitor */
    }
    CHECK(!kr_fd_hidden(base - 1) && !kr_fd_hidden(BEHIND));
    CHECK(kr_fd_hidden(0xffffffff00000000ULL | base)); /* the kernel looks at 32 bits */
    CHECK(!kr_fd_hidden((u64)(s64)-100));
    CHECK_EQ(kr_fd_fix(fd, plug, &number), -EBUSY); /* somebody is there */
    CHECK_EQ(number, (int)base);
    u64 place = kr_fd_place();
    /* A monitor that execve started: one slot was in use and is closed, one holds the program. */
    kr_sys1(__NR_close, SLOT0 + 3);
    limits(4096, 4096);
    int fd0 = open_null();
    kr_sys3(__NR_dup3, fd0, SLOT0 + 4, 0);
    limits(1024, 4096);
    int kept[2] = {(int)SLOT0 + 4, -1};
    CHECK_EQ(kr_fd_fixed_again(task, 0, kept, 2), -EINVAL);
    CHECK_EQ(kr_fd_fixed_again(task, base | 25ULL << 32, kept, 2), -EINVAL);
    CHECK_EQ(kr_fd_fixed_again(task, place, kept, 2), 0);
    CHECK_EQ(task->slots, 2);
    CHECK_EQ(inode((int)SLOT0 + 3), inode((int)SLOT0));
    CHECK(inode((int)SLOT0 + 4) != inode((int)SLOT0));
    kr_slot_free((int)SLOT0 + 4);
    CHECK_EQ(inode((int)SLOT0 + 4), inode((int)SLOT0));
    CHECK_EQ(task->slots, 0);
    kr_sys1(__NR_close, fd0);
}

static void slots(void) {
    others(0);
    int fd = open_null();
    CHECK_EQ(kr_slot_put(task, fd), fd); /* nobody else is there */
    int two = kr_slot_dup(task, (u64)fd);
    CHECK(two >= 0 && two != fd && !kr_fd_hidden((u64)two));
    kr_slot_free(two);
    CHECK(!is_open(two) && is_open(fd));
    others(1);
    u64 spare = inode((int)SLOT0), mine = inode(fd);
    two = kr_slot_dup(task, (u64)fd);
    CHECK_EQ(two, (int)SLOT0);
    int s = kr_slot_put(task, fd);
    CHECK_EQ(s, (int)SLOT0 + 1);
    CHECK(!is_open(fd));
    CHECK(inode(two) == mine && inode(s) == mine && flags_of(s) == FD_CLOEXEC);
    CHECK_EQ(soft_limit(), 1024);
    kr_slot_free(two);
    kr_slot_free(s);
    CHECK(inode(two) == spare && inode(s) == spare && flags_of(s) == 0);
    two = kr_slot_dup(task, 0);
    kr_slot_free_slow(task, two);
    CHECK(inode(two) == spare && !task->slots && !is_open((int)BEHIND) && !kr_fd_hidden(BEHIND));
    kr_slot_free_slow(task, -EBADF);
    CHECK_EQ(kr_slot_dup(task, base), -EBADF);
    CHECK_EQ(kr_slot_dup(task, 900), -EBADF);
    CHECK_EQ(kr_slot_put(task, -ENOENT), -ENOENT);
    /* Three for each task; who has some gets no more and does not wait. */
    static struct kr_task *tasks[KR_FD_SLOTS / KR_FD_SLOTS_TASK];
    for (u32 i = 0; i < KR_COUNT(tasks); i++) {
        tasks[i] = kr_test_task();
        tasks[i]->proc->flags = KR_PROCF_SHARED_FILES;
        for (u32 k = 0; k < KR_FD_SLOTS_TASK; k++)
            CHECK_EQ(kr_slot_put(tasks[i], open_null()), (int)(SLOT0 + i * KR_FD_SLOTS_TASK + k));
        fd = open_null();
        CHECK_EQ(kr_slot_put(tasks[i], fd), -EMFILE);
        CHECK(!is_open(fd));
    }
    /* Two groups are for those that do not wait for long; a task that has ended counts no more. */
    for (u32 i = 0; i < KR_COUNT(tasks); i++)
        CHECK_EQ(kr_slot_linger((int)(SLOT0 + i * KR_FD_SLOTS_TASK)), i < KR_COUNT(tasks) - 2);
    CHECK_EQ(kr_slot_linger(900), 1);
    kr_slots_release(tasks[1]);
    CHECK_EQ(kr_slot_linger((int)(SLOT0 + 7 * KR_FD_SLOTS_TASK)), 1);
    CHECK_EQ(kr_slot_linger((int)(SLOT0 + 6 * KR_FD_SLOTS_TASK)), 0);
    for (u32 k = 0; k < KR_FD_SLOTS_TASK; k++)
        CHECK_EQ(kr_slot_put(tasks[1], open_null()), (int)(SLOT0 + KR_FD_SLOTS_TASK + k));
    fd = open_null();
    task->sig_caught = 1; /* none is free: a signal ends the wait */
    CHECK_EQ(kr_slot_put(task, fd), -KR_ERESTART);
    CHECK(!is_open(fd));
    task->sig_caught = 0;
    kr_slot_free((int)SLOT0 + 4);
    CHECK_EQ(kr_slot_put(tasks[1], open_null()), (int)SLOT0 + 4);
    for (u32 k = 0; k < KR_FD_SLOTS_TASK; k++)
        kr_slot_free((int)(SLOT0 + KR_FD_SLOTS_TASK + k));
    CHECK_EQ(kr_slot_put(task, open_null()), (int)SLOT0 + KR_FD_SLOTS_TASK);
    kr_slot_free((int)SLOT0 + KR_FD_SLOTS_TASK);
    /* A task that has ended gives back its own, and no other's. */
    kr_slots_release(task);
    CHECK_EQ(kr_slot_put(task, open_null()), (int)SLOT0 + KR_FD_SLOTS_TASK);
    fd = open_null();
    u64 null = inode(fd);
    kr_slots_release(tasks[2]);
    CHECK_EQ(tasks[2]->slots, 0);
    for (u32 i = 0; i < KR_FD_SLOTS; i++)
        CHECK_EQ(inode((int)(SLOT0 + i)) == null,
                 i / KR_FD_SLOTS_TASK != 2 && (i / KR_FD_SLOTS_TASK != 1 || i == KR_FD_SLOTS_TASK));
    CHECK_EQ(kr_slot_put(tasks[2], fd), (int)SLOT0 + 2 * KR_FD_SLOTS_TASK);
    kr_slots_release(tasks[2]);
    kr_slot_free((int)SLOT0 + KR_FD_SLOTS_TASK);
    kr_fd_before_fork(); /* a fork child gives back what others were using */
    kr_fd_after_fork();
    for (u32 i = 0; i < KR_FD_SLOTS; i++)
        CHECK_EQ(inode((int)(SLOT0 + i)), spare);
    s = kr_slot_put(task, open_null());
    CHECK_EQ(s, (int)SLOT0);
    kr_slot_free(s);
    others(0);
}

static void dynamic(void) {
    int h, h2;
    int fd = open_null();
    CHECK(kr_fd_hide(fd, KR_FD_EXEC_DROPS, &h) >= (int)BEHIND);
    CHECK(!is_open(fd));
    CHECK(is_open(h));
    CHECK_EQ(flags_of(h), FD_CLOEXEC);
    CHECK(kr_fd_hidden((u64)h));
    CHECK(!kr_fd_hidden((u64)fd));
    CHECK(!kr_fd_hidden((u64)h + 1));
    CHECK_EQ(soft_limit(), 1024);
    fd = open_null();
    CHECK(kr_fd_hide(fd, KR_FD_EXEC_DROPS, &h2) > h);
    int list[8];
    CHECK_EQ(kr_fd_list(list, 8), 2);
    CHECK_EQ(list[0], h);
    CHECK_EQ(list[1], h2);
    fd = open_null();
    CHECK_EQ(kr_fd_dup((u64)h, F_DUPFD, 0), -EBADF);
    CHECK_EQ(kr_fd_dup(base, F_DUPFD, 0), -EBADF);
    CHECK_EQ(kr_fd_dup_onto((u64)fd, (u64)h, 0), -EBADF);
    CHECK_EQ(kr_fd_dup_onto((u64)fd, base + 2, 0), -EBADF);
    CHECK_EQ(kr_fd_dup_onto((u64)fd, SLOT0, 0), -EBADF);
    CHECK_EQ(kr_fd_dup_onto((u64)h, 20, 0), -EBADF);
    CHECK_EQ(kr_fd_dup_onto((u64)fd, 20, CLOEXEC), 20);
    CHECK_EQ(flags_of(20), FD_CLOEXEC);
    kr_sys1(__NR_close, 20);
    int s = (others(1), kr_slot_put(task, fd)), h3; /* the program comes in a slot */
    CHECK(kr_fd_hide(s, KR_FD_EXEC_DROPS, &h3) > h2);
    CHECK_EQ(inode(s), inode((int)SLOT0 + 1));
    others(0);
    kr_fd_drop(&h);
    kr_fd_drop(&h2);
    CHECK_EQ(h2, -1);
    kr_fd_drop(&h3);
    CHECK_EQ(kr_fd_list(list, 8), 0);
}

static void close_ranges(void) {
    int h[3], mine[8];
    limits(4096, 4096);
    for (int i = 0; i < 3; i++)
        kr_fd_hide(open_null(), KR_FD_EXEC_DROPS, &h[i]);
    for (int i = 0; i < 8; i++)
        mine[i] = (int)kr_sys3(__NR_fcntl, 0, F_DUPFD, i < 4 ? (int)base - 4 : h[0] - 1);
    CHECK(mine[3] == (int)base - 1 && mine[4] == h[2] + 1);
    CHECK_EQ(kr_fd_close_range(base + 1, BEHIND - 1, 0), 0);
    CHECK_EQ(kr_fd_close_range(base + 1, base + 2, CLOSE_RANGE_CLOEXEC), 0);
    CHECK_EQ(kr_fd_close_range(base - 2, SLOT0, CLOSE_RANGE_CLOEXEC), 0);
    CHECK_EQ(flags_of(mine[1]), 0);
    CHECK_EQ(flags_of(mine[3]), FD_CLOEXEC);
    CHECK_EQ(kr_fd_close_range(SLOT0, (u64)mine[5], 0), 0);
    CHECK(is_open(mine[3]) && !is_open(mine[4]) && !is_open(mine[5]) && is_open(mine[6]));
    CHECK_EQ(kr_fd_close_range(3, ~0ULL, 0), 0);
    for (int i = 0; i < 8; i++)
        CHECK(!is_open(mine[i]));
    for (u32 i = base; i < BEHIND; i++)
        CHECK(is_open((int)i) && flags_of((int)i) == 0);
    CHECK_EQ(kr_fd_close_range(7, 5, 0), -EINVAL);
    CHECK_EQ(kr_fd_close_range(3, 5, 64), -EINVAL);
    for (int i = 0; i < 3; i++) {
        CHECK(is_open(h[i]));
        kr_fd_drop(&h[i]);
    }
    limits(1024, 4096);
}

/* While a vfork child has a copy of the table, numbers are not forgotten. */
static void copies(void) {
    int h;
    kr_fd_hide(open_null(), KR_FD_EXEC_DROPS, &h);
    int n = h;
    kr_fd_copy_begin();
    kr_fd_copy_made(kr_lock_self() + (1 << 24)); /* another's */
    kr_fd_copy_made(kr_lock_self());
    kr_fd_copy_made(kr_lock_self());
    kr_fd_drop(&h);
    CHECK_EQ(h, -1);
    CHECK(kr_fd_hidden((u64)n));
    kr_fd_copy_end();
    CHECK(!kr_fd_hidden((u64)n));
    CHECK(!is_open(n));
}

/* Copies for a message are hidden and closed. The number of one that was closed behind our back is no number for
 * something new. */
static void passing(void) {
    int fd = open_null(), h, a = kr_fd_pass(task->mm, (u64)fd), b = kr_fd_pass(task->mm, (u64)fd);
    CHECK(a >= (int)BEHIND && b > a && kr_fd_hidden((u64)a) && kr_fd_hidden((u64)b));
    CHECK_EQ(kr_fd_pass(task->mm, base), -EBADF);
    CHECK_EQ(kr_fd_pass(task->mm, (u64)a), -EBADF);
    CHECK_EQ(kr_fd_pass(task->mm, 900), -EBADF);
    kr_fd_passed(a);
    CHECK(!is_open(a) && !kr_fd_hidden((u64)a) && is_open(b));
    kr_fd_hide_begin(task->mm);
    CHECK_EQ(kr_fd_hide_end(task->mm, b, KR_FD_FORK_DROPS, &h), -EAGAIN);
    CHECK(h == -1 && !is_open(b) && kr_fd_hidden((u64)b));
    kr_fd_passed(b);
    kr_fd_passed(fd); /* not one of these */
    CHECK(!kr_fd_hidden((u64)b) && is_open(fd));
    /* Nor is it the number of something new: the plug stands there. */
    a = kr_fd_pass(task->mm, (u64)fd);
    kr_sys1(__NR_close, a);
    kr_fd_hide_begin(task->mm);
    int n = kr_fd_hide_end(task->mm, open_null(), KR_FD_FORK_DROPS, &h);
    CHECK(n > a && h == n && is_open(a) && is_plug((u32)a) && kr_fd_hidden((u64)a));
    kr_fd_drop(&h);
    kr_fd_passed(a);
    CHECK(!is_open(a) && !is_open(n));
    a = kr_fd_pass(task->mm, (u64)fd);
    kr_fd_before_fork();
    kr_fd_after_fork();
    CHECK(!is_open(a) && !kr_fd_hidden((u64)a));
    kr_sys1(__NR_close, fd);
}

/* A number that a call names becomes none of the monitor's while the call goes on. */
static void named(void) {
    struct kr_task *o = kr_test_task();
    struct kr_mm *mm = task->mm;
    int fd = open_null(), h, low;
    o->mm = mm;
    o->proc->flags = KR_PROCF_SHARED_FILES;
    kr_test_self = o;
    o->next = NULL;
    mm->tasks = o;
    /* A fixed number is refused at once, and written down nowhere; what no other task can exchange is not
     * written down. */
    CHECK(!kr_fd_name(o, 0, base) && !o->named[0] && !o->named[1]);
    CHECK(kr_fd_name(task, 0, (u64)fd) && !task->named[0]);
    /* The numbers behind the slots are taken from the lowest on, without the one that a call names. */
    CHECK(kr_fd_name(o, 1, BEHIND));
    CHECK_EQ(o->named[1], BEHIND + 1);
    int a = kr_fd_pass(mm, (u64)fd);
    CHECK_EQ(a, (int)BEHIND + 1);
    CHECK(!is_open((int)BEHIND) && !kr_fd_hidden(BEHIND));
    CHECK(!kr_fd_name(o, 0, (u64)a) && !o->named[0]);
    kr_fd_passed(a);
    kr_fd_unname(o);
    CHECK_EQ(o->named[1], 0);
    a = kr_fd_pass(mm, (u64)fd);
    CHECK_EQ(a, (int)BEHIND);
    kr_fd_passed(a);
    /* The kernel itself gives the lowest free number: not one that a call names. */
    low = open_null();
    kr_sys1(__NR_close, low);
    CHECK(kr_fd_name(o, 0, (u64)low));
    kr_fd_hide_begin(mm);
    CHECK(is_plug((u32)low));
    int made = open_null();
    CHECK(made > low);
    CHECK(kr_fd_hide_end(mm, made, KR_FD_FORK_DROPS, &h) >= (int)BEHIND);
    CHECK(!is_open(low) && !is_open(made) && !kr_fd_hidden((u64)low));
    kr_fd_drop(&h);
    /* Beyond the soft limit, too, where the numbers below it are used up; not where the kernel gives none. */
    CHECK(kr_fd_name(o, 0, 1060) && kr_fd_name(o, 1, 4000000));
    kr_fd_hide_begin(mm);
    CHECK(is_open(1060) && is_plug(1060));
    CHECK_EQ(soft_limit(), 1024);
    CHECK_EQ(kr_fd_hide_end(mm, -EMFILE, KR_FD_FORK_DROPS, &h), -EMFILE);
    CHECK(!is_open(1060));
    kr_fd_unname(o);
    CHECK(kr_fd_name(o, 0, (u64)low));
    /* If it gave one nevertheless, because somebody closed it in the middle, the descriptor is not used. */
    kr_fd_hide_begin(mm);
    kr_sys1(__NR_close, low);
    made = open_null();
    CHECK_EQ(made, low);
    CHECK_EQ(kr_fd_hide_end(mm, made, KR_FD_FORK_DROPS, &h), -EAGAIN);
    CHECK(h == -1 && !is_open(low));
    /* The plug stays as long as close(2) may still take it away, and goes with that call. */
    o->nr = __NR_close;
    kr_fd_hide_begin(mm);
    CHECK_EQ(kr_fd_hide_end(mm, -EIO, KR_FD_FORK_DROPS, &h), -EIO);
    CHECK(is_plug((u32)low) && kr_fd_hidden((u64)low));
    kr_fd_unname(o);
    CHECK(!is_open(low) && !kr_fd_hidden((u64)low));
    /* dup3(2) takes away what is at its second number, not at its first one. */
    o->nr = __NR_dup3;
    for (u32 i = 0; i < 2; i++) {
        CHECK(kr_fd_name(o, i, (u64)low));
        kr_fd_hide_begin(mm);
        CHECK_EQ(kr_fd_hide_end(mm, -EIO, KR_FD_FORK_DROPS, &h), -EIO);
        CHECK(is_open(low) == (i == KR_NAMED_ONTO));
        if (i == KR_NAMED_ONTO) /* as that call does */
            CHECK_EQ(kr_sys3(__NR_dup3, fd, low, 0), low);
        kr_fd_unname(o);
        CHECK(!kr_fd_hidden((u64)low));
    }
    CHECK_EQ(inode(low), inode(fd));
    kr_sys1(__NR_close, low);
    /* The call of another process goes on until that process is dead. */
    struct kr_task *relative = kr_test_task(), *chain = relative->next;
    relative->mm = mm;
    relative->next = NULL;
    relative->holder = 4711;
    relative->named[0] = (u32)low + 1;
    relative->nr = __NR_close;
    o->next = relative;
    for (is_dead = 0; is_dead < 2; is_dead++) {
        kr_fd_hide_begin(mm);
        CHECK_EQ(kr_fd_hide_end(mm, -EIO, KR_FD_FORK_DROPS, &h), -EIO);
        CHECK(is_open(low) == !is_dead && kr_fd_hidden((u64)low) == !is_dead);
    }
    is_dead = 0;
    o->next = NULL;
    relative->next = chain;
    /* What the payload has put there meanwhile stays. */
    CHECK(kr_fd_name(o, 0, (u64)low));
    kr_fd_hide_begin(mm);
    kr_sys3(__NR_dup3, fd, low, 0);
    CHECK_EQ(kr_fd_hide_end(mm, -EIO, KR_FD_FORK_DROPS, &h), -EIO);
    kr_fd_unname(o);
    CHECK(kr_fd_name(o, 0, (u64)low) && inode(low) == inode(fd));
    kr_fd_unname(o);
    /* So does kr_fd_shut keep it, as a close(2) of its own. */
    kr_sys1(__NR_close, low);
    o->nr = ~0ULL;
    CHECK(kr_fd_name(o, 0, (u64)low));
    o->named[KR_NAMED_SHUT] = (u32)low + 1;
    kr_fd_hide_begin(mm);
    CHECK_EQ(kr_fd_hide_end(mm, -EIO, KR_FD_FORK_DROPS, &h), -EIO);
    CHECK(is_plug((u32)low) && kr_fd_hidden((u64)low));
    /* A task with a table of its own may use the number meanwhile. */
    struct kr_task *child = kr_test_task();
    kr_test_self = child;
    CHECK(!kr_fd_hidden((u64)low) && kr_fd_name(child, 0, (u64)low) && kr_fd_hidden(base));
    kr_test_self = o;
    kr_fd_unname(o);
    CHECK(!o->named[KR_NAMED_SHUT]);
    kr_fd_hide_begin(mm);
    CHECK_EQ(kr_fd_hide_end(mm, -EIO, KR_FD_FORK_DROPS, &h), -EIO);
    CHECK(!is_open(low) && !kr_fd_hidden((u64)low));
    CHECK_EQ(open_null(), low);
    /* The monitor closes its own at ordinary numbers, never one of the table. */
    kr_fd_shut(low);
    CHECK(!is_open(low) && !o->named[KR_NAMED_SHUT]);
    kr_fd_shut(-EBADF);
    a = kr_fd_pass(mm, (u64)fd);
    kr_fd_shut(a);
    CHECK(is_open(a));
    kr_fd_passed(a);
    kr_fd_shut(fd);
    mm->tasks = NULL;
}

/* A task with a copy of the table forks: where the table says plug, it may have a file of its own. */
static void fork_child_of_a_copy(void) {
    int h, fd = open_null();
    struct kr_task *o = kr_test_task(), *made = o->next;
    o->mm = task->mm;
    o->next = NULL;
    o->named[KR_NAMED_SHUT] = 41;
    task->mm->tasks = o;
    kr_fd_hide_begin(task->mm);
    CHECK_EQ(kr_fd_hide_end(task->mm, -EIO, KR_FD_FORK_DROPS, &h), -EIO);
    CHECK(is_plug(40));
    kr_sys3(__NR_dup3, fd, 40, 0);
    kr_fd_before_fork();
    kr_fd_after_fork();
    CHECK(is_open(40) && inode(40) == inode(fd) && !kr_fd_hidden(40));
    kr_sys1(__NR_close, 40);
    kr_sys1(__NR_close, fd);
    task->mm->tasks = NULL;
    o->next = made;
}

static void fork_child(void) {
    int gone, kept;
    kr_fd_hide(open_null(), KR_FD_FORK_DROPS, &gone);
    kr_fd_hide(open_null(), KR_FD_EXEC_DROPS, &kept);
    int n = gone;
    kr_fd_before_fork();
    kr_fd_after_fork();
    CHECK_EQ(gone, -1);
    CHECK(!is_open(n));
    CHECK(is_open(kept));
    CHECK(kr_fd_hidden((u64)kept));
    kr_fd_drop(&kept);
}

/* The payload's hard limit may be lower than the kernel's, which stays where the numbers are reachable. */
static void payload_limit(void) {
    u64 low[2] = {100, 200}, old[2], up[2] = {100, 201}, bad[2] = {7, 6}, real[2], room = BEHIND + 64;
    CHECK_EQ(kr_fd_limit(task, low, old), 0);
    CHECK(old[0] == 1024 && old[1] == 4096);
    CHECK_EQ(kr_fd_limit(task, NULL, old), 0);
    CHECK(old[0] == 100 && old[1] == 200);
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, real);
    CHECK(real[0] == 100 && real[1] == room);
    CHECK_EQ(kr_fd_limit(task, bad, old), -EINVAL);
    long r = kr_fd_limit(task, up, old); /* as the right to raise limits is there, or not */
    CHECK(r == 0 || r == -EPERM);
    CHECK_EQ(kr_fd_limit(task, NULL, old), 0);
    CHECK_EQ(old[1], r ? 200 : 201);
    others(1);
    int s = kr_slot_put(task, open_null());
    CHECK_EQ(s, (int)SLOT0);
    kr_slot_free(s);
    others(0);
    CHECK_EQ(soft_limit(), 100);
    limits(room, room);
}

/* Limits below the numbers: dynamic ones go where there is room. */
static void below_hard_limit(void) {
    int h[100], n = 0;
    limits(256, 256);
    for (int i = 0; i < 100; i++) {
        int fd = open_null();
        CHECK(kr_fd_hide(fd, KR_FD_EXEC_DROPS, &h[i]) >= 0);
        n += is_open(h[i]);
    }
    CHECK_EQ(n, 100);
    for (int i = 0; i < 100; i++)
        kr_fd_drop(&h[i]);
    others(1);
    int fd = open_null();
    CHECK_EQ(kr_slot_put(task, fd), -EMFILE);
    CHECK(!is_open(fd));
    others(0);
}

void test_main(void) {
    task = kr_test_task();
    fixed();
    slots();
    dynamic();
    copies();
    passing();
    named();
    fork_child();
    fork_child_of_a_copy();
    close_ranges();
    payload_limit();
    below_hard_limit(); /* lowers the hard limit for good */
}
