/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a first program that cannot be executed. No state. Called by the only thread, which ends the process afterwards.
 */
#include "exec.h"
#include "main.h"
#include <asm/signal.h>

static const char *words_of(long err) {
    switch (err) {
    case ENOENT:
        return "no such file or directory";
    case EACCES:
        return "permission denied";
    case ENOEXEC:
        return "exec format error";
    case ELIBBAD:
        return "accessing a corrupted shared library";
    case ELOOP:
        return "too many levels of symbolic links";
    case ENOTDIR:
        return "not a directory";
    case ENOMEM:
        return "cannot allocate memory";
    case EFAULT:
        return "bad address";
    case EIO:
        return "input/output error";
    }
    return NULL;
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...) {
    const u64 all = ~0ULL;
    char line[KR_LOG_ROOM];
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, 0, 8); /* SIGPIPE, SIGXFSZ, SIGTTOU of the write */
    va_list ap;
    va_start(ap, fmt);
    size_t n = kr_log_line(line, "", fmt, ap);
    va_end(ap);
    kr_sys3(__NR_write, 2, line, n);
}

void kr_unfit_say(const char *path, const struct kr_program *p, const char *why, long err) {
    char number[24];
    const char *words = words_of(err);
    if (!words) {
        kr_snprintf(number, sizeof number, "errno %ld", err);
        words = number;
    }
    say("exec %s: %s: %s%s%s%s%s", path, words, why, p->which[0] ? ": " : "", p->which, p->hint ? "; " : "",
        p->hint ? p->hint : "");
}
