/* SPDX-License-Identifier: Apache-2.0
 * sys/notify.c: what the relay is told of a call, and what its answers do. The relay is a table of answers.
 * Sources: notify.c kr_alloc.c
 */
#include "harness.h"
#include "abi/notify.h"
#include "machine/fdtab.h"
#include "machine/mm.h"
#include "process/above.h"
#include "sys/path.h"
#include "sys/sys.h"

static u64 answers[8], told[8][2];
static u32 n;
long kr_call_intr(long nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    (void)b, (void)c, (void)d, (void)e, (void)f;
    told[n][0] = (u64)nr;
    told[n][1] = a;
    return (long)answers[n++];
}
static u64 moved[3];
static long move_result;
long kr_fd_dup_onto(u64 fd, u64 to, u64 flags) {
    moved[0] = fd;
    moved[1] = to;
    moved[2] = flags;
    return move_result;
}
static long shut;
void kr_fd_shut(long fd) { shut = fd; }
void kr_listing_forget(u64 first, u64 last) { CHECK_EQ(first, last); }
static u64 replaced;
void kr_sockets_passed(struct kr_task *t, u64 fd) { (void)t, replaced = fd; }

static struct kr_task *task(u64 nr) {
    struct kr_task *t = kr_test_task();
    t->nr = nr;
    t->args[0] = 17;
    n = 0;
    return t;
}

static void results(void) {
    static const u64 plain[] = {
        0, 7, (u64)-EXDEV, (u64)-EINTR, (u64)-KR_ERESTART, 0x7123456789abcdef, ~0ULL << 63};
    long ret;
    for (u32 i = 0; i < KR_COUNT(plain); i++) {
        struct kr_task *t = task(83);
        answers[0] = plain[i];
        CHECK_EQ(kr_notify(t, &ret), 0);
        CHECK_EQ((u64)ret, plain[i]);
        CHECK_EQ(n, 1);
        CHECK_EQ(told[0][0] & 0xff000fff, KR_NOTIFY_BASE | 83);
        CHECK_EQ(told[0][1], 17);
    }
    CHECK_EQ(kr_notify(task(0x1000), &ret), 0); /* no call has such a number */
    CHECK_EQ(ret, -ENOSYS);
    CHECK_EQ(n, 0);
}

/* A call that passes is told once, however often it is made again, and until the payload makes another one. */
static void passes(void) {
    struct kr_task *t = task(83);
    long ret;
    answers[0] = answers[1] = answers[2] = KR_NOTIFY_PASS;
    CHECK_EQ(kr_notify(t, &ret), 1);
    t->resumed = 1;
    kr_notify_served(t, -KR_ERESTART);
    CHECK_EQ(kr_notify(t, &ret), 1);
    CHECK_EQ(n, 1);
    kr_notify_served(t, 0);
    CHECK_EQ(kr_notify(t, &ret), 1); /* served: even if another call is made again now */
    CHECK_EQ(n, 2);
    t->resumed = 0;
    kr_notify_served(t, -KR_ERESTART); /* a signal: the payload makes it anew */
    CHECK_EQ(kr_notify(t, &ret), 1);
    CHECK_EQ(n, 3);
}

/* A stop or a question: the call is told again by the same number, so that the agent is not asked twice. */
static void again(void) {
    struct kr_task *t = task(83);
    long ret;
    answers[0] = (u64)-KR_ERESTART;
    answers[1] = KR_NOTIFY_AGAIN;
    answers[2] = 5;
    CHECK_EQ(kr_notify(t, &ret), 0);
    CHECK_EQ(ret, -KR_ERESTART);
    t->resumed = 1;
    CHECK_EQ(kr_notify(t, &ret), 0);
    CHECK_EQ(ret, 5);
    CHECK_EQ(n, 3);
    CHECK(told[0][0] == told[1][0] && told[1][0] == told[2][0]);
}

/* A descriptor is moved as the payload's dup3 would move it; the kernel of this test has no relay, so ENOSYS follows. */
static void moves(void) {
    struct kr_task *t =
        task(__NR_recvfrom); /* a call that keeps a socket which it names in the table of owned ones */
    long ret;
    t->mm->sockets = (struct kr_sockets *)t; /* there is a table */
    answers[0] = KR_NOTIFY_MOVE | 5 | 100ULL << KR_NOTIFY_FD_BITS | KR_NOTIFY_CLOEXEC;
    CHECK_EQ(kr_notify(t, &ret), 0);
    CHECK_EQ(ret, -ENOSYS);
    CHECK_EQ(moved[0], 5);
    CHECK_EQ(moved[1], 100);
    CHECK_EQ(moved[2], 02000000);
    CHECK_EQ(shut, 5);
    CHECK_EQ(replaced, 100); /* and the socket at that number is out of the table */
    answers[n] = KR_NOTIFY_MOVE | 0x3fffff | 0x3fffffULL << KR_NOTIFY_FD_BITS;
    CHECK_EQ(kr_notify(t, &ret), 0);
    CHECK(moved[0] == 0x3fffff && moved[1] == 0x3fffff && moved[2] == 0);
}

void test_main(void) {
    results();
    passes();
    again();
    moves();
}
