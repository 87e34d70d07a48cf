/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, string and format functions of the monitor: see kr_lib.h. No state.
 */
#include "kr_lib.h"

#ifndef KR_HOSTED
void *memcpy(void *dst, const void *src, size_t n) {
    void *ret = dst;
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
    return ret;
}

void *memset(void *dst, int c, size_t n) {
    void *ret = dst;
    __asm__ volatile("rep stosb" : "+D"(dst), "+c"(n) : "a"(c) : "memory");
    return ret;
}

void *memmove(void *dst, const void *src, size_t n) {
    u8 *d = dst;
    const u8 *s = src;
    if (d == s || n == 0)
        return dst;
    if (d < s || d >= s + n)
        return memcpy(dst, src, n);
    d += n;
    s += n;
    while (n >= 8) {
        u64 v;
        d -= 8;
        s -= 8;
        n -= 8;
        __builtin_memcpy(&v, s, 8);
        __builtin_memcpy(d, &v, 8);
    }
    while (n--)
        *--d = *--s;
    return dst;
}

int memcmp(const void *a, const void *b, size_t n) {
    const u8 *x = a, *y = b;
    for (; n; n--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

size_t strlen(const char *s) {
    const char *p = s;
    while (*p)
        p++;
    return (size_t)(p - s);
}

int strcmp(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return (u8)*a - (u8)*b;
}

int strncmp(const char *a, const char *b, size_t n) {
    for (; n; n--, a++, b++)
        if (*a != *b || !*a)
            return (u8)*a - (u8)*b;
    return 0;
}

char *strchr(const char *s, int c) {
    for (;; s++) {
        if (*s == (char)c)
            return (char *)s;
        if (!*s)
            return NULL;
    }
}

char *strrchr(const char *s, int c) {
    const char *last = NULL;
    for (;; s++) {
        if (*s == (char)c)
            last = s;
        if (!*s)
            return (char *)last;
    }
}
#endif

struct out {
    char *buf;
    size_t size, len;
};

static void put(struct out *o, char c) {
    if (o->len + 1 < o->size)
        o->buf[o->len] = c;
    o->len++;
}

static void put_padded(struct out *o, const char *s, size_t n, int width, int left, char pad) {
    int fill = width > (int)n ? width - (int)n : 0;
    if (!left)
        while (fill-- > 0)
            put(o, pad);
    for (size_t i = 0; i < n; i++)
        put(o, s[i]);
    if (left)
        while (fill-- > 0)
            put(o, ' ');
}

static size_t digits(char *end, u64 v, unsigned base) {
    char *p = end;
    do {
        *--p = "0123456789abcdef"[v % base];
        v /= base;
    } while (v);
    return (size_t)(end - p);
}

/* What stands between % and the letter: flags, width, precision (-1: none), number of l, ll, z. */
struct form {
    int left, width, prec, longs;
    char pad;
};

/* Reads a form. Returns where the letter is. *prec_arg: whether the precision is the next argument. */
static const char *form(const char *fmt, struct form *f, int *prec_arg) {
    *f = (struct form){.prec = -1, .pad = ' '};
    *prec_arg = 0;
    for (; *fmt == '-' || *fmt == '0'; fmt++) {
        if (*fmt == '-')
            f->left = 1;
        else
            f->pad = '0';
    }
    while (*fmt >= '0' && *fmt <= '9')
        f->width = f->width * 10 + *fmt++ - '0';
    if (*fmt == '.') {
        f->prec = 0;
        if (*++fmt == '*') {
            *prec_arg = 1;
            fmt++;
        }
        while (*fmt >= '0' && *fmt <= '9')
            f->prec = f->prec * 10 + *fmt++ - '0';
    }
    for (; *fmt == 'l' || *fmt == 'z'; fmt++)
        f->longs++;
    return fmt;
}

int kr_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) {
    struct out o = {buf, size, 0};
    for (; *fmt; fmt++) {
        if (*fmt != '%') {
            put(&o, *fmt);
            continue;
        }
        struct form f;
        int prec_arg;
        fmt = form(fmt + 1, &f, &prec_arg);
        if (prec_arg)
            f.prec = va_arg(ap, int);
        char tmp[24], *end = tmp + sizeof tmp;
        size_t n;
        switch (*fmt) {
        case 'c':
            tmp[0] = (char)va_arg(ap, int);
            put_padded(&o, tmp, 1, f.width, f.left, ' ');
            break;
        case 's': {
            const char *s = va_arg(ap, const char *);
            if (!s)
                s = "(null)";
            for (n = 0; (f.prec < 0 || n < (size_t)f.prec) && s[n]; n++)
                ;
            put_padded(&o, s, n, f.width, f.left, ' ');
            break;
        }
        case 'd': {
            s64 v = f.longs ? va_arg(ap, s64) : va_arg(ap, int);
            n = digits(end, v < 0 ? 0 - (u64)v : (u64)v, 10);
            if (v < 0)
                *(end - ++n) = '-';
            put_padded(&o, end - n, n, f.width, f.left, f.pad);
            break;
        }
        case 'u':
        case 'x': {
            u64 v = f.longs ? va_arg(ap, u64) : va_arg(ap, unsigned);
            n = digits(end, v, *fmt == 'u' ? 10 : 16);
            put_padded(&o, end - n, n, f.width, f.left, f.pad);
            break;
        }
        case 'p':
            n = digits(end, (u64)va_arg(ap, void *), 16);
            put(&o, '0');
            put(&o, 'x');
            put_padded(&o, end - n, n, f.width, f.left, f.pad);
            break;
        case '%':
            put(&o, '%');
            break;
        default: /* unknown: written as it is */
            put(&o, '%');
            if (!*fmt)
                fmt--;
            else
                put(&o, *fmt);
        }
    }
    if (size)
        buf[o.len < size ? o.len : size - 1] = 0;
    return (int)o.len;
}

int kr_snprintf(char *buf, size_t size, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = kr_vsnprintf(buf, size, fmt, ap);
    va_end(ap);
    return n;
}

u64 kr_strtou(const char *s, const char **end) {
    u64 v = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (v > (UINT64_MAX - 9) / 10)
            v = UINT64_MAX;
        else
            v = v * 10 + (u64)(*s - '0');
    }
    if (end)
        *end = s;
    return v;
}
