/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: lines of the monitor, the trace (trace.c). No state. Locks: none. One write(2) writes a line, so
 * lines of several threads and processes do not mix (the log is opened with O_APPEND).
 */
#include "main.h"
#include "../abi/boot.h"
#include <asm/signal.h>

#define UNWELCOME (KR_SIGBIT(SIGPIPE) | KR_SIGBIT(SIGXFSZ))

#define LOG_MOST (64ULL << 20)

/* Whether the log has its whole length. Only the log of --trace-log has one: the payload decides how much is traced, and the
 * disk is the operator's. Lines that are written at the same moment may lie behind the end. */
static int is_full(void) {
    u64 st[18]; /* struct stat: st_size is the seventh */
    return kr_boot.flags & KR_BOOTF_BOUND && kr_sys2(__NR_fstat, kr_boot.fd_log, st) == 0 &&
           st[6] >= LOG_MOST;
}

/* The kernel sends a signal to the thread if the log is a pipe without a reader (SIGPIPE), or a file longer
 * than the payload's RLIMIT_FSIZE (SIGXFSZ). The signal is the log's, not the payload's: it is taken back. One
 * that was pending before stays. All signals are blocked, because a handler that ran meanwhile would have
 * changed the mask that is restored. */
long kr_log_write(const void *data, size_t n) {
    if (is_full())
        return -ENOSPC;
    const u64 all = ~0ULL, at_once[2] = {0, 0};
    kr_sigset mask = 0, before = 0;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
    if (mask & UNWELCOME) /* one that was not blocked was not pending */
        kr_sys2(__NR_rt_sigpending, &before, 8);
    long r = kr_sys3(__NR_write, kr_boot.fd_log, data, n);
    kr_sigset sent = (r == -EPIPE ? KR_SIGBIT(SIGPIPE) : r == -EFBIG ? KR_SIGBIT(SIGXFSZ) : 0) & ~before;
    if (sent)
        kr_sys4(__NR_rt_sigtimedwait, &sent, 0, at_once, 8);
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
    return r;
}

size_t kr_log_line(char line[KR_LOG_ROOM], const char *prefix, const char *fmt, va_list ap) {
    int n = kr_snprintf(line, KR_LOG_ROOM, "%s", prefix);
    n += kr_vsnprintf(line + n, KR_LOG_ROOM - (size_t)n - 1, fmt, ap);
    n = KR_MIN(n, KR_LOG_ROOM - 2);
    for (int i = 0; i < n; i++) /* a message may contain names of the payload's choice, and stays one line */
        line[i] = (char)((u8)line[i] < ' ' || line[i] == 0x7f ? '?' : line[i]);
    line[n++] = '\n';
    return (size_t)n;
}

void kr_log(const char *fmt, ...) {
    char line[KR_LOG_ROOM];
    if (kr_boot.fd_log < 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    kr_log_write(line, kr_log_line(line, "krun-monitor: ", fmt, ap));
    va_end(ap);
}
