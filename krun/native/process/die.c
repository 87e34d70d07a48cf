/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own messages: log lines, times of the stages of a start, the end after a broken invariant.
 */
#include "../machine/vmm.h"
#include "main.h"
#include <linux/time.h>

u64 kr_now(void) {
    struct {
        s64 sec, nsec;
    } ts = {0, 0};
    kr_sys2(__NR_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (u64)ts.sec * 1000000000ULL + (u64)ts.nsec;
}

static void write_line(int fd, const char *prefix, const char *fmt, va_list ap) {
    char line[512];
    int n = kr_snprintf(line, sizeof line, "%s", prefix);
    n += kr_vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    n = KR_MIN(n, (int)sizeof line - 2);
    for (int i = 0; i < n; i++) /* a message may contain names of the payload's choice, and stays one line */
        line[i] = (u8)line[i] < ' ' || line[i] == 0x7f ? '?' : line[i];
    line[n++] = '\n';
    kr_sys3(__NR_write, fd, line, n);
}

void kr_log(const char *fmt, ...) {
    if (kr_boot.fd_log < 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    write_line(kr_boot.fd_log, "krun-monitor: ", fmt, ap);
    va_end(ap);
}

void kr_die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    /* Without a log the user would not see the message. This is the only line that the monitor writes to the
     * payload's stderr. */
    write_line(kr_boot.fd_log >= 0 ? kr_boot.fd_log : 2, "krun-monitor: fatal: ", fmt, ap);
    va_end(ap);
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
