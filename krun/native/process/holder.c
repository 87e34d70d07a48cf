/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds a lock, and whether the holder still lives (lib/kr_lock.h).
 *
 * A lock passes to an heir only if its holder is certainly dead, because two holders at once would break the
 * monitor's state. Four things could deceive:
 *
 *   - The holder may be in another pid namespace. So numbers are those of the monitor's procfs, and only that procfs is asked.
 *   - Its number may have been given to a new thread. So the time of birth is compared.
 *   - procfs says ENOENT also when it gets no memory for the inode of a living thread (proc_pid_lookup() in fs/proc/base.c), as
 *     in a memory cgroup that is full and has nothing to kill. So ENOENT is believed only if a listing leaves the number
 *     out: a listing has the entry without the inode, too (proc_fill_cache()).
 *   - A dead task's errand thread (private.c) works under the task's word. So a dead leader counts only without other threads.
 *
 * A question that has no answer (no descriptor, no thread for it, no memory) counts as "lives", and is asked again.
 *
 * State: task->holder, written by the task's own thread. No locks.
 */
#include "holder.h"
#include "ns.h"
#include "../lib/above.h"
#include "../machine/fdtab.h"
#include "../lib/kr_linux.h"
#include <asm/signal.h>
#include <linux/stat.h>
#include <linux/time.h>

u64 kr_stat_now(void) {
    s64 now[2] = {0, 0};
    kr_sys2(__NR_clock_gettime, CLOCK_BOOTTIME, now);
    return ((u64)now[0] * 1000000000ULL + (u64)now[1]) / KR_HOLDER_TICK;
}

void kr_holder_learn(struct kr_task *t) {
    char link[64]; /* "PID/task/TID", in the pid namespace of the procfs handle */
    long n = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, "thread-self", link, sizeof link - 1);
    link[n > 0 ? n : 0] = 0;
    const char *last = strrchr(link, '/');
    u64 tid = last ? kr_strtou(last + 1, NULL) : 0, pid = kr_strtou(link, NULL);
    if (tid > KR_HOLDER_NUMBER || pid > KR_HOLDER_NUMBER)
        tid = pid = 0;
    /* The clock comes last: the thread is older than the time that stands with its number. */
    t->holder = kr_holder((u32)tid, (u32)pid, kr_stat_now());
}

/* Field n > 2 of the text of a stat, or NULL. */
static const char *stat_field(const char *text, int n) {
    const char *p = strrchr(text, ')'); /* the name may hold any byte */
    for (int field = 2; p && field < n; field++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    return p;
}

int kr_stat_parse(const char *text, char *state, u64 *start) {
    const char *p = stat_field(text, 3), *q = stat_field(text, 22);
    if (!p || !q)
        return -ESRCH;
    *state = *p;
    *start = kr_strtou(q, NULL);
    return 0;
}

u32 kr_stat_parent(const char *text) {
    const char *p = stat_field(text, 4);
    return p ? (u32)kr_strtou(p, NULL) : 0;
}

u64 kr_stat_cpu(const char *text) {
    const char *user = stat_field(text, 14), *system = stat_field(text, 15);
    return user && system ? kr_strtou(user, NULL) + kr_strtou(system, NULL) : 0;
}

struct question {
    u32 tid, pid;
    u64 born;
    char text[4096];
};

/* The thread has a descriptor table of its own (kr_alone). So where the payload has used up the numbers, it gives some back. */
static long open_proc(const char *path, u64 flags) {
    flags |= O_RDONLY | O_CLOEXEC;
    long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, path, flags, 0);
    if (fd == -EMFILE && kr_sys3(__NR_close_range, 0, kr_fd_base() - 1, 0) == 0)
        fd = kr_sys4(__NR_openat, kr_boot.fd_proc, path, flags, 0);
    return fd;
}

struct dirent_head { /* linux_dirent64, getdents64(2) */
    u64 ino, off;
    u16 reclen;
    u8 type;
} __attribute__((packed));

/* Whether the directory at path has an entry `number`; *n: how many entries are numbers. -errno: it was not read to the end. */
static long lists(struct question *q, long fd, u32 number, u32 *n) {
    long got, found = 0;
    *n = 0;
    while ((got = kr_sys3(__NR_getdents64, fd, q->text, sizeof q->text)) > 0)
        for (long at = 0; at < got;) {
            struct dirent_head h;
            memcpy(&h, q->text + at, sizeof h);
            u64 name = kr_strtou(q->text + at + sizeof h, NULL); /* 0: no number */
            *n += name != 0;
            found |= name == number;
            at += h.reclen;
        }
    return got < 0 ? got : found;
}

/* Whether procfs has no process pid. */
static int no_process(struct question *q) {
    u32 n;
    long fd = open_proc(".", O_DIRECTORY);
    if (fd < 0)
        return 0;
    long r = lists(q, fd, q->pid, &n);
    kr_sys1(__NR_close, fd);
    return r == 0 && n > 0;
}

static u32 links(long fd) {
    struct statx st;
    return kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_NLINK, &st) < 0 ? 0 : st.stx_nlink;
}

/* Whether the living process pid has no thread tid: another thread of it has executed a program. A listing ends early if a
 * thread ends under it, so its length is compared with the number of threads, which is nlink - 2 (proc_task_getattr()). */
static int no_thread(struct question *q) {
    char path[32];
    u32 n;
    kr_snprintf(path, sizeof path, "%u/task", q->pid);
    long fd = open_proc(path, O_DIRECTORY);
    if (fd < 0)
        return 0;
    u32 before = links(fd);
    long r = lists(q, fd, q->tid, &n);
    u32 after = links(fd);
    kr_sys1(__NR_close, fd);
    return r == 0 && n > 0 && before == n + 2 && after == n + 2;
}

/* For kr_alone. 1: the holder is dead. */
static long judge(void *arg) {
    struct question *q = arg;
    char path[32], state;
    u64 start;
    kr_snprintf(path, sizeof path, "%u/stat", q->tid);
    long fd = open_proc(path, 0);
    if (fd == -ENOENT)
        return no_process(q) || no_thread(q);
    if (fd < 0)
        return 0;
    long n = kr_sys3(__NR_read, fd, q->text, sizeof q->text - 1);
    kr_sys1(__NR_close, fd);
    if (n == -ESRCH) /* ended since */
        return no_process(q) || no_thread(q);
    q->text[n > 0 ? n : 0] = 0;
    if (kr_stat_parse(q->text, &state, &start) < 0)
        return 0;
    if (start > q->born)
        return 1;
    const char *threads = stat_field(q->text, 20);
    return q->tid == q->pid && (state == 'Z' || state == 'X') && threads && kr_strtou(threads, NULL) <= 1;
}

/* Waits for a lock double from 10 to 640 ms: after one second, after four. */
#define CONTINUE_AFTER 7u
#define KILL_AFTER 12u

/* For kr_alone. 1: the holder is stopped. */
static long is_stopped(void *arg) {
    struct question *q = arg;
    char path[32], state;
    u64 start;
    kr_snprintf(path, sizeof path, "%u/stat", q->tid);
    long fd = open_proc(path, 0), n = fd < 0 ? fd : kr_sys3(__NR_read, fd, q->text, sizeof q->text - 1);
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
    q->text[n > 0 ? n : 0] = 0;
    return n > 0 && kr_stat_parse(q->text, &state, &start) == 0 && start <= q->born && state == 'T';
}

/* SIGSTOP may reach a process that CLONE_VM made between any two instructions of the monitor's, and its sender may be a user who has
 * no right to stop the processes that share its memory: natively they go on. A process that its sender stops again and again is
 * killed, which the sender may do as well. The kernel decides whether this process may send the signal. */
void kr_holder_goad(u64 word, u32 waits) {
    struct question q = {.tid = kr_holder_tid(word), .pid = kr_holder_pid(word)};
    struct kr_task *t = kr_self();
    if (waits < CONTINUE_AFTER || !q.tid || !q.pid || q.pid == kr_holder_pid(kr_lock_self()) ||
        !kr_same_numbers(t->proc))
        return;
    q.born = kr_holder_born(word, kr_stat_now());
    if (kr_alone(t, is_stopped, &q) != 1)
        return;
    kr_log("process %u is stopped inside the monitor, where others wait for it: %s", q.pid,
           waits < KILL_AFTER ? "continued" : "killed");
    kr_sys2(__NR_kill, q.pid, waits < KILL_AFTER ? SIGCONT : SIGKILL);
}

int kr_holder_gone(u64 word) {
    struct question q = {.tid = kr_holder_tid(word), .pid = kr_holder_pid(word)};
    if (!q.tid || !q.pid || !kr_holder_tid(kr_lock_self()))
        return 0;
    q.born = kr_holder_born(word, kr_stat_now());
    return kr_alone(kr_self(), judge, &q) == 1;
}
