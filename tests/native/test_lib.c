/* SPDX-License-Identifier: Apache-2.0
 * lib/: formats, numbers, the heap, and the one pointer check. Sources: kr_alloc.c */
#include "harness.h"
#include "machine/usercopy.h"

int snprintf(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define SAME(...)                                                                                            \
    do {                                                                                                     \
        char one[200], two[200];                                                                             \
        int a = kr_snprintf(one, sizeof one, __VA_ARGS__), b = snprintf(two, sizeof two, __VA_ARGS__);       \
        CHECK_EQ(a, b);                                                                                      \
        CHECK_STR(one, two);                                                                                 \
    } while (0)

static void formats(void) {
    SAME("plain %% text");
    SAME("[%s] [%10s] [%-10s] [%.2s] [%.*s]", "abc", "abc", "abc", "abc", 1, "abc");
    SAME("%c%c", 'x', 'y');
    SAME("%d %d %d %5d|%-5d|%05d", 0, -1, 2147483647, 42, 42, 42);
    SAME("%d", -2147483647 - 1);
    SAME("%ld %ld %lu", -1L, (long)(1UL << 63), ~0UL);
    SAME("%x %08x %lx %zx %zu", 0xdeadbeef, 0x12, ~0UL, (size_t)77, (size_t)0);
    SAME("%p", (void *)0x1234);
    for (int i = 0; i < 20000; i++) {
        u64 v = kr_test_random() >> kr_test_below(64);
        SAME("%lu %ld %lx %20lu %-20lx|", (unsigned long)v, (long)v, (unsigned long)v, (unsigned long)v,
             (unsigned long)v);
    }
    char small[4];
    CHECK_EQ(kr_snprintf(small, sizeof small, "%s", "abcdef"), 6);
    CHECK_STR(small, "abc");
    CHECK_EQ(kr_snprintf(small, 1, "%d", 12), 2);
    CHECK_STR(small, "");
    CHECK_EQ(kr_snprintf(NULL, 0, "%d", 12), 2);
}

static void numbers(void) {
    const char *end;
    CHECK_EQ(kr_strtou("123x", &end), 123);
    CHECK_EQ(*end, 'x');
    CHECK_EQ(kr_strtou("", &end), 0);
    CHECK_EQ(kr_strtou("-1", &end), 0);
    CHECK_EQ(kr_strtou("99999999999999999999999", NULL), ~0ULL);
    CHECK_EQ(kr_strtou("1844674407370955160", NULL), 1844674407370955160ULL);
}

static void heap(void) {
    static struct {
        u8 *p;
        size_t n;
        u8 mark;
    } live[300];
    for (int i = 0; i < 60000; i++) {
        u64 k = kr_test_below(KR_COUNT(live));
        if (live[k].p && kr_test_below(3)) {
            for (size_t b = 0; b < live[k].n; b += 97)
                CHECK_EQ(live[k].p[b], live[k].mark);
            CHECK_EQ(live[k].p[live[k].n - 1], live[k].mark);
            if (kr_test_below(3) == 0) {
                size_t n = 1 + kr_test_below(50000), keep = KR_MIN(n, live[k].n);
                u8 *p = kr_realloc(live[k].p, live[k].n, n);
                CHECK(p[0] == live[k].mark && p[keep - 1] == live[k].mark);
                memset(p, live[k].mark, n);
                live[k].p = p;
                live[k].n = n;
            } else {
                kr_free(live[k].p, live[k].n);
                live[k].p = NULL;
            }
        } else if (!live[k].p) {
            size_t n = kr_test_below(20) ? 1 + kr_test_below(600) : 1 + kr_test_below(100000);
            if (kr_test_below(8) == 0) /* at and around the sizes of the classes */
                n = (1u << kr_test_below(17)) + kr_test_below(3);
            int any = kr_test_below(4) == 0;
            live[k].p = any ? kr_alloc_any(n) : kr_alloc(n);
            live[k].n = n;
            CHECK(live[k].p && !((u64)live[k].p & 15));
            for (size_t b = 0; b < n && !any; b++)
                if (live[k].p[b]) {
                    CHECK(!"fresh memory is zero");
                    break;
                }
            memset(live[k].p, live[k].mark = (u8)(1 + kr_test_below(255)), n);
        }
        if (kr_test_failures > 5)
            return;
    }
    kr_free(NULL, 0);
    kr_alloc_before_fork();
    kr_alloc_after_fork();
    kr_free(kr_alloc(10), 10);
}

static void window(void) {
    CHECK(kr_span_ok(0, 0));
    CHECK(kr_span_ok(KR_WINDOW_END - 1, 1));
    CHECK(!kr_span_ok(KR_WINDOW_END - 1, 2));
    CHECK(!kr_span_ok(KR_WINDOW_END, 0));
    CHECK(!kr_span_ok(KR_WINDOW_END, 1));
    CHECK(!kr_span_ok(~0ULL, 1));
    CHECK(!kr_span_ok(1, ~0ULL));
    CHECK(!kr_span_ok(0x7fff00000000ULL, 8));
    for (int i = 0; i < 100000; i++) {
        u64 a = kr_test_random() << kr_test_below(20), n = kr_test_random() >> kr_test_below(60);
        if (kr_span_ok(a, n))
            CHECK(a < KR_WINDOW_END && a + n <= KR_WINDOW_END && a + n >= a);
        else
            CHECK(a >= KR_WINDOW_END || n > KR_WINDOW_END - a);
    }
    /* Copies: whole, or EFAULT; strings that end, do not end, or run into nothing. */
    char *mem = kr_test_window(4096), buf[64];
    memset(mem, 'a', 4096);
    CHECK_EQ(kr_copy_in(buf, (u64)mem, 64), 0);
    CHECK_EQ(kr_copy_in(buf, (u64)mem + 4090, 64), -EFAULT);
    CHECK_EQ(kr_copy_in(buf, KR_WINDOW_END, 1), -EFAULT);
    CHECK_EQ(kr_copy_out((u64)mem + 4096, buf, 1), -EFAULT);
    CHECK_EQ(kr_copy_out((u64)buf, buf, 1), -EFAULT); /* the monitor's own memory */
    CHECK_EQ(kr_copy_str(buf, (u64)mem, 64), -ENAMETOOLONG);
    CHECK_EQ(kr_copy_str(buf, (u64)mem + 4090, 64), -EFAULT);
    mem[4095] = 0;
    CHECK_EQ(kr_copy_str(buf, (u64)mem + 4090, 64), 5);
    CHECK_EQ(kr_copy_str(buf, (u64)mem + 4090, 6), 5);
    CHECK_EQ(kr_copy_str(buf, (u64)mem + 4090, 5), -ENAMETOOLONG);
    CHECK_EQ(kr_copy_str(buf, KR_WINDOW_END - 2, 64), -EFAULT);
    CHECK_EQ(kr_copy_str(buf, 0, 64), -EFAULT);
}

void test_main(void) {
    formats();
    numbers();
    heap();
    window();
}
