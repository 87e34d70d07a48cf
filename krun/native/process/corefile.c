/* SPDX-License-Identifier: Apache-2.0
 *
 * The name and the making of a core file (core.h): format_corename() and coredump_file() in fs/coredump.c. No
 * state.
 */
#include "core.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

/* ---- the name ---- */

struct name {
    char *out;
    size_t size, n;
};

static void put_char(struct name *c, char ch) {
    if (c->n + 1 < c->size)
        c->out[c->n++] = ch;
}

static void put_number(struct name *c, u64 v) {
    char word[24];
    kr_snprintf(word, sizeof word, "%lu", (unsigned long)v);
    for (const char *s = word; *s; s++)
        put_char(c, *s);
}

/* Appends a name that the payload can choose as one component of a path: never "." or "..", never empty
 * (cn_esc_printf()). */
static void put_name(struct name *c, const char *s) {
    int dots = s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
    if (!*s || dots)
        put_char(c, '!');
    for (s += dots; *s; s++)
        put_char(c, *s == '/' ? '!' : *s);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Expands one %-specifier. Returns whether it was the number of the process. */
static int put_word(struct name *c, char word, const struct kr_core_name *n) {
    switch (word) {
    case '%':
        put_char(c, '%');
        break;
    case 'p':
    case 'P':
    case 'i':
    case 'I':
        put_number(c, n->pid);
        return word == 'p' || word == 'P';
    case 'u':
        put_number(c, n->uid);
        break;
    case 'g':
        put_number(c, n->gid);
        break;
    case 'd':
        put_number(c, n->dumpable);
        break;
    case 's':
        put_number(c, n->sig);
        break;
    case 't':
        put_number(c, n->time);
        break;
    case 'c':
        put_number(c, n->limit);
        break;
    case 'h':
        put_name(c, n->host);
        break;
    case 'e':
        put_name(c, n->comm);
        break;
    case 'f':
        put_name(c, base_name(n->exe));
        break;
    case 'E':
        put_name(c, n->exe);
        break;
    }
    return 0;
}

void kr_core_format(char *out, size_t size, const char *pattern, const struct kr_core_name *n) {
    struct name c = {out, size, 0};
    int has_pid = 0;
    if (!*pattern || *pattern == '\n')
        pattern = "core";
    for (; *pattern && *pattern != '\n'; pattern++) {
        if (*pattern != '%')
            put_char(&c, *pattern);
        else if (!*++pattern)
            break;
        else
            has_pid |= put_word(&c, *pattern, n);
    }
    if (!has_pid && n->uses_pid) {
        put_char(&c, '.');
        put_number(&c, n->pid);
    }
    out[c.n] = 0;
}

/* ---- the file ---- */

/* Opens the directory of the file, as far as no magic link leads there (proc(5): the walk has the monitor's
 * rights). *name: the last component. Descriptor, AT_FDCWD or -errno. */
static long open_dir(char *path, const char **name) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash)
        return AT_FDCWD;
    char first = *slash;
    *slash = 0;
    long dir = kr_sys4(__NR_openat2, AT_FDCWD, slash == path ? "/" : path, &how, sizeof how);
    *slash = first;
    return dir;
}

long kr_core_create(char *path) {
    struct open_how how = {.flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_LARGEFILE | O_CLOEXEC,
                           .mode = 0600,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    const char *name;
    long dir = open_dir(path, &name);
    if (dir < 0 && dir != AT_FDCWD)
        return dir;
    kr_sys3(__NR_unlinkat, dir, name, 0);
    long fd = kr_sys4(__NR_openat2, dir, name, &how, sizeof how);
    if (dir != AT_FDCWD)
        kr_sys1(__NR_close, dir);
    return fd;
}
