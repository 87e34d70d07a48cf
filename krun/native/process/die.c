/* SPDX-License-Identifier: Apache-2.0
 *
 * The end after a broken invariant, and the times of the stages of a start.
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

void kr_die(const char *fmt, ...) {
    char line[KR_LOG_ROOM];
    va_list ap;
    va_start(ap, fmt);
    size_t n = kr_log_line(line, "krun-monitor: fatal: ", fmt, ap);
    va_end(ap);
    /* Without a log the user would not see the message. This is the only line that the monitor writes to the
     * payload's stderr. */
    if (kr_boot.fd_log >= 0)
        kr_log_write(line, n);
    else
        kr_sys3(__NR_write, 2, line, n);
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
