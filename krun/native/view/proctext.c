/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts for the payload: the buffer that grows, and the sealed memfd that the payload reads. No state, no
 * locks.
 */
#include "proctext.h"
#include "../machine/fdtab.h"
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <linux/openat2.h>
#include <linux/resource.h>

int kr_text_grow(struct kr_text *o, size_t more) {
    if (o->len + more <= o->room)
        return 1;
    size_t room = o->room ? o->room : 8192;
    while (room < o->len + more)
        room *= 2;
    char *p = o->failed ? NULL : kr_realloc(o->buf, o->room, room);
    if (!p) {
        o->failed = 1;
        return 0;
    }
    o->buf = p;
    o->room = room;
    return 1;
}

void kr_text_add(struct kr_text *o, const char *s, size_t n) {
    if (!kr_text_grow(o, n))
        return;
    memcpy(o->buf + o->len, s, n);
    o->len += n;
}

void kr_text_addf(struct kr_text *o, const char *fmt, ...) {
    char line[192];
    va_list ap;
    va_start(ap, fmt);
    int n = kr_vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    kr_text_add(o, line, (size_t)KR_MIN(n, (int)sizeof line - 1));
}

u64 kr_text_hex(const char *s, const char **end) {
    u64 v = 0;
    for (;; s++) {
        if (*s >= '0' && *s <= '9')
            v = v << 4 | (u64)(*s - '0');
        else if (*s >= 'a' && *s <= 'f')
            v = v << 4 | (u64)(*s - 'a' + 10);
        else
            break;
    }
    *end = s;
    return v;
}

const char *kr_line_after(const char *text, const char *key) {
    const char *p = text;
    for (size_t n = strlen(key); p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, n) == 0)
            return p + n;
    return NULL;
}

u64 kr_hex_of(const char *s) {
    const char *end;
    while (*s == ' ' || *s == '\t')
        s++;
    return kr_text_hex(s, &end);
}

/* ---- Descriptors ---- */

/* A pipe with the text, for a text longer than RLIMIT_FSIZE: the limit applies to a memfd as well, and a
 * write beyond it raises SIGXFSZ. */
static long publish_pipe(const struct kr_text *o) {
    s32 fds[2];
    /* O_NONBLOCK: a text that does not fit fails, because nobody reads yet. */
    long r = kr_sys2(__NR_pipe2, fds, O_CLOEXEC | O_NONBLOCK);
    if (r < 0)
        return r;
    if (o->len > 4096)
        kr_sys3(__NR_fcntl, fds[1], F_SETPIPE_SZ, o->len);
    r = kr_sys3(__NR_write, fds[1], o->buf, o->len);
    kr_fd_shut(fds[1]);
    if (r == (long)o->len && kr_sys3(__NR_fcntl, fds[0], F_SETFL, 0) == 0)
        return fds[0];
    kr_fd_shut(fds[0]);
    return r < 0 ? r : -ENOMEM;
}

/* Writes the text into the memfd fd, which no other thread can reach, and seals it. 0 or -errno. */
static long fill(int fd, const struct kr_text *o) {
    for (size_t at = 0; at < o->len;) {
        long n = kr_sys3(__NR_write, fd, o->buf + at, o->len - at);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? n : -EIO;
        at += (size_t)n;
    }
    return kr_sys3(__NR_fcntl, fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

/* The memfd is opened again, for reading only. Both descriptors are made in a slot: another thread reaches neither, so that a
 * text that another process has asked for is the monitor's. */
long kr_text_publish(struct kr_task *t, const struct kr_text *o, const char *name) {
    u64 limit[2];
    if (kr_sys4(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, limit) == 0 && limit[0] < o->len)
        return publish_pipe(o);
    char label[64], link[64];
    kr_snprintf(label, sizeof label, KR_VIEW_LABEL "%s", name);
    const u64 memfd[4] = {(u64)label, MFD_CLOEXEC | MFD_ALLOW_SEALING};
    long fd = kr_slot_make(t, -1, __NR_memfd_create, memfd);
    if (fd < 0)
        return fd;
    long r = fill((int)fd, o);
    if (r < 0) {
        kr_slot_free((int)fd);
        return r;
    }
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    int dir = kr_proc_self_fd(link, sizeof link, (int)fd);
    const u64 again[4] = {(u64)(s64)dir, (u64)link, (u64)&how, sizeof how};
    return kr_slot_make(t, (int)fd, __NR_openat2, again);
}
