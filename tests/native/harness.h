/* SPDX-License-Identifier: Apache-2.0
 * For the C unit tests: checks, and the pieces of the monitor that a hosted test does without (stubs.c). */
#ifndef KR_TEST_HARNESS_H
#define KR_TEST_HARNESS_H

#include "machine/vmm.h"

/* Of the C library only this: its headers define what the kernel's headers define, too. */
int printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int vprintf(const char *fmt, va_list ap);
void *calloc(size_t n, size_t size);
void *malloc(size_t size);
void free(void *p);
char *getenv(const char *name);
unsigned long long strtoull(const char *s, char **end, int base);
void abort(void) __attribute__((noreturn));

extern int kr_test_failures;

#define CHECK(cond)                                                                                          \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            printf("%s:%d: %s: CHECK(%s)\n", __FILE__, __LINE__, __func__, #cond);                           \
            kr_test_failures++;                                                                              \
        }                                                                                                    \
    } while (0)

#define CHECK_EQ(a, b)                                                                                       \
    do {                                                                                                     \
        long long a_ = (long long)(a), b_ = (long long)(b);                                                  \
        if (a_ != b_) {                                                                                      \
            printf("%s:%d: %s: %s is %lld (0x%llx), expected %s = %lld (0x%llx)\n", __FILE__, __LINE__,      \
                   __func__, #a, a_, (unsigned long long)a_, #b, b_, (unsigned long long)b_);                \
            kr_test_failures++;                                                                              \
        }                                                                                                    \
    } while (0)

#define CHECK_STR(a, b)                                                                                      \
    do {                                                                                                     \
        const char *a_ = (a), *b_ = (b);                                                                     \
        if (strcmp(a_, b_)) {                                                                                \
            printf("%s:%d: %s: %s is \"%s\", expected \"%s\"\n", __FILE__, __LINE__, __func__, #a, a_, b_);  \
            kr_test_failures++;                                                                              \
        }                                                                                                    \
    } while (0)

/* Deterministic random numbers (xorshift); the seed is KR_TEST_SEED or 1, printed by test_main at a failure.
 */
u64 kr_test_random(void);
u64 kr_test_below(u64 n);

/* A page-aligned piece of the guest's window, readable and writable. */
void *kr_test_window(size_t size);

/* A task of one thread with its process and mm. */
struct kr_task *kr_test_task(void);
/* kr_self(): a task without a process, unless a test sets another one. */
extern __thread struct kr_task *kr_test_self;

/* The calling thread as a holder of locks. */
extern __thread u64 kr_test_holder;

/* The descriptors that kr_boot names, in a hosted test: procfs, executable. */
void kr_test_boot(void);

void test_main(void);

#endif
