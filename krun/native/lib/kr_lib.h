/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a C library that the monitor needs. No state. It is also built hosted for the unit tests, which use
 * libc's functions of the same names.
 */
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

/* Formats into buf, which gets a NUL if size > 0. Knows %s %c %d %u %x %p, l ll z, a width, the flags 0 and -,
 * %.Ns and %.*s. Returns the length of the whole text without NUL; a longer text than size - 1 is cut. */
int kr_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap);
int kr_snprintf(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Reads the decimal number at s, without sign or spaces. *end, if end is not NULL, is set behind the number. A
 * number that is too large gives UINT64_MAX. */
u64 kr_strtou(const char *s, const char **end);

/* Number of elements of an array; the smaller and the larger of two; pages. */
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
