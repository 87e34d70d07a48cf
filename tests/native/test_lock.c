/* SPDX-License-Identifier: Apache-2.0
 * lib/kr_lock.c and process/holder.c: a lock passes from a dead holder to its heir, and from no other; who is dead.
 * Sources: kr_alloc.c
 */
#define kr_holder_gone real_holder_gone
#include "process/holder.h"
#include "harness.h"
#include "process/holder.c"
#undef kr_holder_gone
#include <asm/signal.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/wait.h>

static struct kr_lock lock;
static u32 asked, inherited;
static u64 asked_about;
static int (*answer)(void);

int kr_holder_gone(u64 word) {
    asked++;
    asked_about = word;
    return answer();
}

void kr_state_heir(struct kr_lock *l) {
    CHECK(l == &lock);
    CHECK_EQ(l->word, kr_lock_self() | KR_LOCK_WAITED);
    inherited++;
}

static u64 other(void) { return kr_holder(4711, 4711, 99); }
static int dead(void) { return 1; }
static int dead_later(void) { return asked == 3; }
static int free_again(void) {
    kr_unlock_of(&lock, other());
    return 0;
}
/* The holder's number and lock have passed to another holder while the question was asked. */
static int another(void) {
    u64 next = kr_holder(4711, 4711, 100);
    if (asked > 1) {
        CHECK_EQ(asked_about, next | KR_LOCK_WAITED);
        kr_unlock(&lock);
        return 0;
    }
    lock.word = next | KR_LOCK_HELD;
    return 1;
}

static void takes(int (*f)(void), u32 times, u32 heirs) {
    answer = f;
    asked = inherited = 0;
    lock.word = other() | KR_LOCK_HELD;
    u64 before = 0, ts[2];
    kr_sys2(__NR_clock_gettime, 1, ts);
    before = ts[0] * 1000000000 + ts[1];
    kr_lock(&lock);
    kr_sys2(__NR_clock_gettime, 1, ts);
    CHECK(ts[0] * 1000000000 + ts[1] - before >= KR_HOLDER_TICK); /* the numbers of a holder rely on it */
    CHECK_EQ(lock.word, kr_lock_self() | KR_LOCK_WAITED);
    CHECK_EQ(asked, times);
    CHECK_EQ(inherited, heirs);
    if (f != another)
        CHECK_EQ(asked_about, other() | KR_LOCK_WAITED);
    kr_unlock(&lock);
    CHECK_EQ(lock.word, 0);
}

static void words(void) {
    u64 h = kr_holder((1u << 22) - 1, 4711, 0x1234567), tick = 1 << 18;
    CHECK_EQ(kr_holder_tid(h | KR_LOCK_WAITED), (1u << 22) - 1);
    CHECK_EQ(kr_holder_pid(h | KR_LOCK_WAITED), 4711);
    CHECK_EQ(kr_holder_pid(kr_holder(4711, (1u << 22) - 1, 0)), (1u << 22) - 1);
    CHECK_EQ(kr_holder_born(h | KR_LOCK_WAITED, 0x1234567), 0x1234567);
    CHECK_EQ(kr_holder_born(h, 0x1234567 + tick - 1), 0x1234567);
    CHECK_EQ(kr_holder_born(h, 0x1234567 + tick), 0x1234567 + tick); /* never earlier than the true time */
    CHECK_EQ(h & KR_LOCK_STATE, 0);
    kr_lock(&lock);
    CHECK_EQ(lock.word, kr_lock_self() | KR_LOCK_HELD);
    kr_unlock_of(&lock, other());
    CHECK_EQ(lock.word, kr_lock_self() | KR_LOCK_HELD);
    kr_unlock_of(&lock, kr_lock_self());
    CHECK_EQ(lock.word, 0);
    kr_unlock_of(&lock, kr_lock_self());
    kr_unlock_of(&lock, 0);
    CHECK_EQ(lock.word, 0);
}

static void stat_texts(void) {
    char state = 0;
    u64 start = 0;
    CHECK_EQ(
        kr_stat_parse("12 (a) b) R) S 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 9", &state, &start),
        0);
    CHECK_EQ(state, 'S');
    CHECK_EQ(start, 777);
    CHECK_EQ(kr_stat_parse("12 (a) S 1 12", &state, &start), -ESRCH);
    CHECK_EQ(kr_stat_parse("12 (a)", &state, &start), -ESRCH);
    CHECK_EQ(kr_stat_parse("", &state, &start), -ESRCH);
}

static long child(int lives) {
    long pid = kr_sys0(__NR_fork);
    if (pid == 0)
        for (;;) {
            if (!lives)
                kr_sys1(__NR_exit_group, 0);
            kr_sys0(__NR_pause);
        }
    return pid;
}

int pthread_create(u64 *thread, const void *attr, void *(*f)(void *), void *arg);

static void *pause_for_ever(void *unused) {
    for (;;)
        kr_sys0(__NR_pause);
    return unused;
}

/* A process whose first thread has ended and whose second one lives, as an errand of a killed task does for a moment. */
static long child_without_leader(void) {
    long pid = kr_sys0(__NR_fork);
    u64 thread;
    if (pid == 0) {
        pthread_create(&thread, NULL, pause_for_ever, NULL);
        kr_sys1(__NR_exit, 0);
    }
    char path[32], text[64] = "";
    kr_snprintf(path, sizeof path, "%u/stat", (u32)pid);
    for (const char *p = NULL; !p || p[2] != 'Z'; p = strrchr(text, ')')) {
        long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, path, O_RDONLY | O_CLOEXEC, 0);
        kr_sys3(__NR_read, fd, text, sizeof text - 1);
        kr_sys1(__NR_close, fd);
        kr_sys0(__NR_sched_yield);
    }
    return pid;
}

static void end(long pid) {
    kr_sys2(__NR_kill, pid, SIGKILL);
    kr_sys4(__NR_wait4, pid, 0, 0, 0);
}

/* The thread tid of process pid, born up to now. */
static int gone(long tid, long pid) { return real_holder_gone(kr_holder((u32)tid, (u32)pid, kr_stat_now())); }

#define LOAD(offset)                                                                                         \
    { BPF_LD | BPF_W | BPF_ABS, 0, 0, offset }
#define RETURN(what)                                                                                         \
    { BPF_RET | BPF_K, 0, 0, what }

/* As under a full memory cgroup: procfs gets no inode, and says that there is no such entry. A directory without that
 * (this process's own and the root) it still opens. */
static void no_inodes(void) {
    static const struct sock_filter f[] = {
        LOAD(0),
        {BPF_JMP | BPF_JEQ | BPF_K, 4, 0, __NR_readlinkat},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 2, __NR_openat},
        LOAD(32), /* the low half of the third argument */
        {BPF_JMP | BPF_JSET | BPF_K, 0, 1, O_DIRECTORY},
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ERRNO | ENOENT),
    };
    const struct {
        u16 len;
        const struct sock_filter *filter;
    } prog = {KR_COUNT(f), f};
    CHECK_EQ(kr_sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(kr_sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog), 0);
}

static void without_inodes(void) {
    long lives = child(1), dead = child(0), headless = child_without_leader(), status = 0;
    kr_sys4(__NR_wait4, dead, 0, 0, 0);
    long pid = kr_sys0(__NR_fork);
    if (pid == 0) {
        kr_test_failures = 0;
        no_inodes();
        CHECK_EQ(gone(lives, lives), 0);
        CHECK_EQ(gone(headless, headless), 0);
        CHECK_EQ(gone(dead, dead), 1);
        kr_sys1(__NR_exit_group, kr_test_failures);
    }
    kr_sys4(__NR_wait4, pid, &status, 0, 0);
    CHECK_EQ((s32)status, 0);
    end(lives);
    end(headless);
}

static void holders(void) {
    struct kr_task *t = kr_test_task();
    kr_holder_learn(t);
    CHECK_EQ(kr_holder_tid(t->holder), kr_sys0(__NR_gettid));
    CHECK_EQ(kr_holder_pid(t->holder), kr_sys0(__NR_getpid));
    u64 now = kr_holder_born(t->holder, kr_stat_now()), before = now - 10000;
    CHECK(now > 0 && now <= kr_stat_now());
    kr_test_holder = t->holder;
    CHECK_EQ(real_holder_gone(t->holder), 0);
    CHECK_EQ(real_holder_gone(0), 0); /* unknown */
    CHECK_EQ(gone(0, 0), 0);
    long a = child(1), b = child(0);
    CHECK_EQ(gone(a, a), 0);
    CHECK_EQ(real_holder_gone(kr_holder((u32)a, (u32)a, before)),
             1); /* it began later: another has the number */
    kr_sys2(__NR_kill, a, SIGSTOP);
    CHECK_EQ(gone(a, a), 0);
    u8 info[128];
    CHECK_EQ(kr_sys5(__NR_waitid, P_PID, b, info, WEXITED | WNOWAIT, 0), 0);
    CHECK_EQ(gone(b, b), 1); /* a zombie */
    kr_sys4(__NR_wait4, b, 0, 0, 0);
    CHECK_EQ(gone(b, b), 1);
    CHECK_EQ(gone(b, a), 1); /* a thread of a process that lives on: it executes a program */
    end(a);
    CHECK_EQ(gone(a, a), 1);
    a = child_without_leader();
    CHECK_EQ(gone(a, a), 0);
    kr_sys2(__NR_kill, a, SIGKILL);
    kr_sys5(__NR_waitid, P_PID, a, info, WEXITED | WNOWAIT, 0);
    CHECK_EQ(gone(a, a), 1);
    end(a);
    without_inodes();
    int proc = kr_boot.fd_proc;
    kr_boot.fd_proc = -1; /* no answer: nobody is dead */
    a = child(1);
    CHECK_EQ(real_holder_gone(kr_holder((u32)a, (u32)a, before)), 0);
    end(a);
    CHECK_EQ(gone(a, a), 0); /* the caller's own namespace is not asked */
    kr_holder_learn(t);
    CHECK_EQ(kr_holder_tid(t->holder), 0);
    kr_boot.fd_proc = proc;
}

void test_main(void) {
    kr_test_boot();
    words();
    takes(dead, 1, 1);
    takes(dead_later, 3, 1);
    takes(free_again, 1, 0);
    takes(another, 2, 0);
    stat_texts();
    holders();
}
