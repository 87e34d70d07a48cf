/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace in the format of strace(1), and counts of the calls, from the rows of the table of system calls.
 *
 * State: counters per call number and per cause of an exit (atomic; a fork child starts with zeroes). Locks: none.
 */
#include "trace.h"
#include "main.h"
#include "../machine/usercopy.h"
#include "../abi/boot.h"
#include "../table/rows.h"
#include <linux/fcntl.h>
#include <linux/time.h>

#define LINE_ROOM 640
#define STR_SHOWN 48
#define ARG_ROOM 64u  /* bytes of a line reserved for the result */
#define MAX_CALLS 512 /* numbers known to the counters */
#define MAX_UNKNOWN 1024

u32 kr_trace_on;

static struct {
    u64 ns;
    u32 calls, errors;
} counts[MAX_CALLS];
static u32 causes[KR_EXIT_CAUSES];
static u64 unknown_seen[MAX_UNKNOWN / 64];
static u32 unknown_calls;

static void put(char *line, size_t *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void put(char *line, size_t *n, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int w = kr_vsnprintf(line + *n, LINE_ROOM - *n, fmt, ap);
    va_end(ap);
    *n = KR_MIN(*n + (size_t)w, (size_t)LINE_ROOM - 1);
}

/* Appends guest bytes in quotes, shortened, with C escapes. str: the bytes end at a NUL. */
static void put_bytes(char *line, size_t *n, u64 addr, u64 len, int str) {
    char raw[STR_SHOWN + 1];
    u64 want = KR_MIN(len, (u64)sizeof raw);
    long got = -EFAULT;
    if (str && kr_span_ok(addr, 1))
        got = kr_copy_str_raw(raw, (const char *)addr, KR_MIN(want, KR_WINDOW_END - addr));
    else if (!str && kr_copy_in(raw, addr, want) == 0)
        got = (long)want;
    if (got < 0) {
        put(line, n, "%p", (void *)addr);
        return;
    }
    put(line, n, "\"");
    for (long i = 0; i < KR_MIN(got, STR_SHOWN); i++) {
        u8 c = (u8)raw[i];
        if (c == '\n')
            put(line, n, "\\n");
        else if (c == '"' || c == '\\')
            put(line, n, "\\%c", c);
        else if (c >= ' ' && c < 127)
            put(line, n, "%c", c);
        else
            put(line, n, "\\x%02x", c);
    }
    put(line, n, (u64)got > STR_SHOWN || (!str && len > STR_SHOWN) ? "\"..." : "\"");
}

static void put_arg(char *line, size_t *n, const struct kr_sys_row *row, const u64 a[6], u32 i, long ret) {
    u32 x = row->arg[i];
    u64 v = a[i];
    int li = KR_ARG_LEN(x);
    u64 len = li >= 0 ? a[li] * KR_ARG_BYTES(x) : KR_ARG_BYTES(x);
    switch (KR_ARG_KIND(x)) {
    case KR_ARG_DFD:
        if ((int)v == AT_FDCWD) {
            put(line, n, "AT_FDCWD");
            break;
        }
        __attribute__((fallthrough));
    case KR_ARG_INT:
    case KR_ARG_PID:
    case KR_ARG_FD:
    case KR_ARG_NEWFD:
    case KR_ARG_SIG:
    case KR_ARG_CLK:
    case KR_ARG_ID: /* -1: unchanged */
        put(line, n, "%d", (int)v);
        break;
    case KR_ARG_UINT:
        put(line, n, "%u", (u32)v);
        break;
    case KR_ARG_LONG:
        put(line, n, "%ld", (s64)v);
        break;
    case KR_ARG_SIZE:
        put(line, n, "%lu", v);
        break;
    case KR_ARG_MODE: {
        char o[16], *p = o + sizeof o - 1;
        *p = 0;
        u32 m = (u32)v;
        do
            *--p = (char)('0' + (m & 7));
        while ((m >>= 3) && p > o + 1);
        put(line, n, "0%s", p);
        break;
    }
    case KR_ARG_STR:
    case KR_ARG_PATH:
        if (v)
            put_bytes(line, n, v, ~0ULL, 1);
        else
            put(line, n, "NULL");
        break;
    case KR_ARG_INV:
        if (v && KR_ARG_BYTES(x) == 1)
            put_bytes(line, n, v, len, 0);
        else
            put(line, n, v ? "%p" : "NULL", (void *)v);
        break;
    case KR_ARG_OUTV: /* the bytes that a read returned */
        if (v && KR_ARG_BYTES(x) == 1 && ret > 0 && (u64)ret <= len)
            put_bytes(line, n, v, (u64)ret, 0);
        else
            put(line, n, v ? "%p" : "NULL", (void *)v);
        break;
    default:
        if (KR_ARG_KIND(x) >= KR_ARG_PTR && !v)
            put(line, n, "NULL");
        else
            put(line, n, "0x%lx", v);
        break;
    }
}

u64 kr_trace_enter(struct kr_task *t) {
    /* A call that does not return writes its line at entry. */
    switch ((u32)t->nr) {
    case __NR_exit:
    case __NR_exit_group:
        if (kr_trace_on & KR_BOOTF_TRACE)
            kr_trace_exit(t, 0, kr_now());
        break;
    case __NR_execve:
    case __NR_execveat:
        if (kr_trace_on & KR_BOOTF_TRACE)
            kr_trace_exit(t, -KR_ERESTART, kr_now());
    }
    return kr_now();
}

void kr_trace_exit(struct kr_task *t, long ret, u64 started) {
    u64 now = kr_now();
    u32 nr = (u32)t->nr;
    if (nr < MAX_CALLS) {
        __atomic_fetch_add(&counts[nr].calls, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counts[nr].ns, now - started, __ATOMIC_RELAXED);
        if (ret < 0 && ret >= -4095)
            __atomic_fetch_add(&counts[nr].errors, 1, __ATOMIC_RELAXED);
    }
    if (!(kr_trace_on & KR_BOOTF_TRACE) || kr_boot.fd_log < 0)
        return;
    char line[LINE_ROOM];
    size_t n = 0;
    put(line, &n, "%u ", (u32)kr_sys0(__NR_gettid));
    const struct kr_sys_row *row = kr_sys_row(nr);
    const char *name = kr_syscall_name(nr);
    if (row) {
        put(line, &n, "%s(", name);
        for (u32 i = 0; i < row->nargs && n < LINE_ROOM - ARG_ROOM; i++) {
            if (i)
                put(line, &n, ", ");
            put_arg(line, &n, row, t->args, i, ret);
        }
        put(line, &n, ")");
    } else {
        put(line, &n, "syscall_%u(0x%lx, 0x%lx, 0x%lx)", nr, t->args[0], t->args[1], t->args[2]);
    }
    n = KR_MIN(n, (size_t)LINE_ROOM - ARG_ROOM);
    if (ret == -KR_ERESTART)
        put(line, &n, " = ?");
    else if (ret < 0 && ret >= -4095)
        put(line, &n, " = -1 (errno %ld)", -ret);
    else if ((u64)ret > 0xffffff)
        put(line, &n, " = 0x%lx", (u64)ret);
    else
        put(line, &n, " = %ld", ret);
    put(line, &n, " <%lu us>", (now - started) / 1000);
    line[n++] = '\n';
    kr_log_write(line, n);
}

void kr_trace_cause(enum kr_exit_cause cause) { __atomic_fetch_add(&causes[cause], 1, __ATOMIC_RELAXED); }

/* The line of the exits: the causes that occurred. Returns its length. */
static size_t put_causes(char *line, size_t room) {
    static const char *const names[KR_EXIT_CAUSES] = {"OUT",       "window",     "window lost", "#PF",
                                                      "exception", "host fault", "interrupt",   "other"};
    u64 sum = 0;
    for (u32 i = 0; i < KR_EXIT_CAUSES; i++)
        sum += causes[i];
    size_t n = (size_t)kr_snprintf(line, room, "%10lu exits:", sum);
    for (u32 i = 0; i < KR_EXIT_CAUSES; i++)
        if (causes[i])
            n += (size_t)kr_snprintf(line + n, room - n, " %s %u", names[i], causes[i]);
    return n + (size_t)kr_snprintf(line + n, room - n, "\n");
}

void kr_trace_summary(void) {
    if (!(kr_trace_on & KR_BOOTF_COUNT) || kr_boot.fd_log < 0)
        return;
    size_t room = 64 * 1024, n = 0;
    char *buf = kr_alloc(room);
    if (!buf)
        return;
    n += (size_t)kr_snprintf(buf, room, "pid %ld\n%10s %12s %10s %8s %s\n", kr_sys0(__NR_getpid), "calls",
                             "total us", "us/call", "errors", "syscall");
    u8 done[MAX_CALLS / 8] = {0};
    u64 calls = 0, ns = 0;
    for (;;) { /* by time, longest first; there are a few hundred rows */
        u32 best = MAX_CALLS;
        for (u32 i = 0; i < MAX_CALLS; i++)
            if (counts[i].calls && !(done[i / 8] >> (i % 8) & 1) &&
                (best == MAX_CALLS || counts[i].ns > counts[best].ns))
                best = i;
        if (best == MAX_CALLS || room - n < 512)
            break;
        done[best / 8] |= (u8)(1 << (best % 8));
        const char *name = kr_syscall_name(best);
        calls += counts[best].calls;
        ns += counts[best].ns;
        n += (size_t)kr_snprintf(buf + n, room - n, "%10u %12lu %10lu %8u %s%s\n", counts[best].calls,
                                 counts[best].ns / 1000, counts[best].ns / 1000 / counts[best].calls,
                                 counts[best].errors, name ? name : "#", name ? "" : " (unknown)");
    }
    n += (size_t)kr_snprintf(buf + n, room - n, "%10lu %12lu total\n", calls, ns / 1000);
    n += put_causes(buf + n, room - n);
    kr_log_write(buf, KR_MIN(n, room - 1));
    kr_free(buf, room);
}

void kr_trace_after_fork(void) {
    if (kr_trace_on & KR_BOOTF_COUNT) { /* without counting they are zero, and writing would copy the page */
        memset(counts, 0, sizeof counts);
        memset(causes, 0, sizeof causes);
    }
}

void kr_count_unknown(u64 nr) {
    __atomic_fetch_add(&unknown_calls, 1, __ATOMIC_RELAXED);
    u64 slot = nr < MAX_UNKNOWN ? nr : MAX_UNKNOWN - 1, bit = 1ULL << (slot % 64);
    if (__atomic_fetch_or(&unknown_seen[slot / 64], bit, __ATOMIC_RELAXED) & bit)
        return;
    kr_log("system call %lu is not known: ENOSYS", nr);
}
