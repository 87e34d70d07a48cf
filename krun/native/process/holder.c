/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds a lock, and whether the holder still lives (lib/kr_lock.h).
 *
 * A lock passes to an heir only if its holder is certainly dead, because two holders at once would break the
 * monitor's state. Three things could deceive: the holder may be in another pid namespace, so numbers are those of
 * the monitor's procfs, and only that procfs is asked; its number may have been given to a new thread, so the time of birth is compared; and a
 * question that has no answer (no descriptor, no thread for it) counts as "lives", and is asked again.
 *
 * State: task->holder, written by the task's own thread. No locks.
 */
#include "holder.h"
#include "../lib/above.h"
#include "../machine/fdtab.h"
#include "../lib/kr_linux.h"
#include <linux/time.h>

/* The calling thread's number in the pid namespace of the procfs handle; 0: it has none there. */
static u32 own_number(void) {
    char link[64]; /* "PID/task/TID" */
    long n = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, "thread-self", link, sizeof link - 1);
    if (n <= 0)
        return 0;
    link[n] = 0;
    const char *last = strrchr(link, '/');
    u64 tid = last ? kr_strtou(last + 1, NULL) : 0;
    return tid < 1u << 22 ? (u32)tid : 0; /* PID_MAX_LIMIT */
}

void kr_holder_learn(struct kr_task *t) {
    s64 now[2] = {0, 0};
    u32 tid =
        own_number(); /* before the clock: the thread is older than the time that stands with its number */
    kr_sys2(__NR_clock_gettime, CLOCK_BOOTTIME, now);
    t->holder = kr_holder(tid, ((u64)now[0] * 1000000000ULL + (u64)now[1]) / KR_HOLDER_TICK);
}

int kr_stat_parse(const char *text, char *state, u64 *start) {
    const char *p = strrchr(text, ')'); /* the name may hold any byte */
    if (!p || p[1] != ' ')
        return -ESRCH;
    *state = p[2];
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    if (!p)
        return -ESRCH;
    *start = kr_strtou(p, NULL);
    return 0;
}

struct question {
    u32 tid;
    char text[1024]; /* field 22 ends within it */
};

/* For kr_private. The number of bytes read, or -errno. */
static long read_stat(void *arg) {
    struct question *q = arg;
    char path[32];
    kr_snprintf(path, sizeof path, "%u/stat", q->tid);
    long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long n = kr_sys3(__NR_read, fd, q->text, sizeof q->text - 1);
    kr_sys1(__NR_close, fd);
    q->text[n > 0 ? n : 0] = 0;
    return n;
}

int kr_holder_gone(u64 word) {
    struct question q = {.tid = kr_holder_tid(word)};
    char name[16], state;
    u64 start;
    if (!q.tid || !kr_holder_tid(kr_lock_self()))
        return 0;
    /* Without a thread, which the limit of threads may refuse. Not kill(2): it means the caller's own pid namespace,
     * where the payload chooses the numbers (clone3 with set_tid). */
    kr_snprintf(name, sizeof name, "%u", q.tid);
    if (kr_sys4(__NR_readlinkat, kr_boot.fd_proc, name, name, sizeof name) ==
        -ENOENT) /* else EINVAL: no link */
        return 1;
    long n = kr_private(kr_self(), read_stat, &q);
    if (n == -ENOENT || n == -ESRCH)
        return 1;
    if (n <= 0 || kr_stat_parse(q.text, &state, &start) < 0)
        return 0;
    return state == 'Z' || state == 'X' || start > kr_holder_born(word);
}
