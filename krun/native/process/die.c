/* SPDX-License-Identifier: Apache-2.0
 *
 * The end after a broken invariant, and the times of the stages of a start.
 */
#include "board.h"
#include "main.h"
#include <asm/signal.h>
#include <linux/poll.h>
#include <linux/resource.h>
#include <linux/time.h>

#define PATIENCE_MS 1000

u64 kr_now(void) {
    struct {
        s64 sec, nsec;
    } ts = {0, 0};
    kr_sys2(__NR_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (u64)ts.sec * 1000000000ULL + (u64)ts.nsec;
}

/* A line to a descriptor that may belong to the payload: a pipe that nobody reads must not keep the process. */
static int write_soon(int fd, const char *line, size_t n) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return kr_sys3(__NR_poll, &p, 1, PATIENCE_MS) == 1 && kr_sys3(__NR_write, fd, line, n) == (long)n;
}

/* The payload's soft limit would stop a line to a long file. The process ends: nothing needs the limit. */
static void lift_file_limit(void) {
    u64 limit[2];
    if (kr_sys4(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, limit) == 0 && limit[0] < limit[1]) {
        limit[0] = limit[1];
        kr_sys4(__NR_prlimit64, 0, RLIMIT_FSIZE, limit, 0);
    }
}

void kr_die(const char *fmt, ...) {
    static const char prefix[] = "krun-monitor: fatal: ";
    const u64 most = ~(KR_SIGBIT(SIGSEGV) | KR_SIGBIT(SIGBUS)); /* kr_board_say survives these two */
    char line[KR_LOG_ROOM];
    kr_sys4(__NR_rt_sigprocmask, SIG_BLOCK, &most, 0, 8); /* SIGPIPE, SIGXFSZ, SIGTTOU of the write */
    va_list ap;
    va_start(ap, fmt);
    size_t n = kr_log_line(line, prefix, fmt, ap);
    va_end(ap);
    line[n - 1] = 0;
    kr_board_say(line + sizeof prefix - 1);
    line[n - 1] = '\n';
    lift_file_limit();
    /* Without a log the user would not see the message. This is the only line that the monitor writes to the
     * payload's stderr. */
    if (kr_boot.fd_log < 0 || !write_soon(kr_boot.fd_log, line, n))
        write_soon(2, line, n);
    for (;;)
        kr_sys1(__NR_exit_group, 127);
}

#define STAGES 16
static struct {
    const char *name;
    u64 at;
} stage[STAGES];
static u32 nstages;

void kr_stage(const char *name) {
    if (nstages < STAGES) {
        stage[nstages].name = name;
        stage[nstages++].at = kr_now();
    }
}

size_t kr_stage_fields(char *buf, size_t size) {
    size_t n = 0;
    for (u32 i = 0; i < nstages; i++) {
        int w = kr_snprintf(buf + n, size - n, "%s=%lu", stage[i].name, (unsigned long)stage[i].at);
        if (n + (size_t)w + 1 >= size)
            break;
        n += (size_t)w + 1; /* the NUL separates */
    }
    return n ? n - 1 : 0;
}
