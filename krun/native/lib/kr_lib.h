/* SPDX-License-Identifier: Apache-2.0
 * The little of a C library that the monitor needs. Pure; also built hosted for the unit tests (where libc's
 * mem and str functions are used instead of ours). */
#ifndef KR_LIB_H
#define KR_LIB_H

#include <stdarg.h>
#include "kr_sys.h"

void *memcpy(void *dst, const void *src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
char *strrchr(const char *s, int c);

/* Formats into buf (always NUL-terminated when size > 0): %s %c %d %u %x %p with l/ll/z, width, 0 and -
 * flags, %.Ns. Returns the length that would have been written. */
int kr_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap);
int kr_snprintf(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Decimal number at s (no sign, no spaces); *end set behind it. Saturates at UINT64_MAX. */
u64 kr_strtou(const char *s, const char **end);

/* Number of elements; lower/upper bound helpers. */
#define KR_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define KR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define KR_MAX(a, b) ((a) > (b) ? (a) : (b))
#define KR_PAGE 4096ULL
#define KR_PAGE_DOWN(x) ((u64)(x) & ~(KR_PAGE - 1))
#define KR_PAGE_UP(x) (((u64)(x) + KR_PAGE - 1) & ~(KR_PAGE - 1))

#define __printf(a, b) __attribute__((format(printf, a, b)))
#define __noreturn __attribute__((noreturn))
#define __unused_ok __attribute__((unused))

#endif
