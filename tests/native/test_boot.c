/* SPDX-License-Identifier: Apache-2.0
 * process/boot.c: the parser of the boot block stays inside it whatever it says. Sources: boot.c kr_alloc.c */
#include "harness.h"
#include "abi/boot.h"
#include "process/main.h"

static u8 block[4096];
static size_t size;

static void start(void) {
    size = sizeof(struct kr_boot_header);
    memset(block, 0, sizeof block);
}

static void record(u16 tag, const void *data, u32 len) {
    struct kr_boot_record r = {.tag = tag, .len = len};
    memcpy(block + size, &r, sizeof r);
    memcpy(block + size + sizeof r, data, len);
    size += sizeof r + ((len + 7) & ~7u);
}

/* From a copy without a spare byte behind it. */
static int parse(struct kr_boot *b, size_t n) {
    struct kr_boot_header h = {KR_BOOT_MAGIC, KR_BOOT_VERSION, (u32)size};
    memcpy(block, &h, sizeof h);
    static u8 *copy;
    free(copy);
    copy = malloc(n ? n : 1);
    memcpy(copy, block, n);
    *b = (struct kr_boot){.fd_kvm = -1};
    return kr_boot_parse(b, copy, n);
}

static void plain(void) {
    struct kr_boot b;
    s32 kvm = 17;
    u64 flags = 5;
    start();
    record(KR_BOOT_FD_KVM, &kvm, 4);
    CHECK_EQ(parse(&b, size), -EINVAL); /* no program */
    record(KR_BOOT_EXE_PATH, "/bin/sh", 7);
    record(KR_BOOT_FLAGS, &flags, 8);
    record(KR_BOOT_HOOK, "one", 3);
    record(KR_BOOT_HOOK, "second", 6);
    record(KR_BOOT_STATE_JSON, "{}", 2);
    CHECK_EQ(parse(&b, size), 0);
    CHECK_STR(b.exe_path, "/bin/sh");
    CHECK_EQ(b.fd_kvm, 17);
    CHECK_EQ(b.fd_exe, -1);
    CHECK_EQ(b.flags, 5);
    CHECK_EQ(b.has_rlimit_stack, 0);
    CHECK_EQ(b.state_json_len, 2);
    size_t pos = 0;
    u32 len;
    const char *h = kr_boot_next(&b, KR_BOOT_HOOK, &pos, &len);
    CHECK(h && len == 3 && memcmp(h, "one", 3) == 0);
    h = kr_boot_next(&b, KR_BOOT_HOOK, &pos, &len);
    CHECK(h && len == 6 && memcmp(h, "second", 6) == 0);
    CHECK(kr_boot_next(&b, KR_BOOT_HOOK, &pos, &len) == NULL);
    CHECK(kr_boot_next(&b, KR_BOOT_HOOK, &pos, &len) == NULL);
    for (size_t n = 0; n < size; n++) /* cut off anywhere */
        CHECK_EQ(parse(&b, n), -EINVAL);
}

static void fuzz(void) {
    for (int i = 0; i < 100000; i++) {
        struct kr_boot b;
        s32 kvm = 17;
        start();
        record(KR_BOOT_FD_KVM, &kvm, 4);
        record(KR_BOOT_EXE_PATH, "/bin/sh", 7);
        record(KR_BOOT_HOOK, "one", 3);
        for (u64 k = 1 + kr_test_below(3); k; k--) {
            u64 v = kr_test_below(3) ? kr_test_random() : ~0ULL - kr_test_below(16);
            memcpy(block + 16 + kr_test_below(size - 24), &v, 1ULL << kr_test_below(4));
        }
        if (parse(&b, size) < 0)
            continue;
        size_t pos = 0;
        u32 len, sum = 0, n = 0;
        const u8 *p;
        while ((p = kr_boot_next(&b, 0, &pos, &len)) && n++ < 100)
            for (u32 k = 0; k < len; k++)
                sum += p[k]; /* ASan: all inside */
        CHECK(n < 100 || sum == 0xffffffff);
    }
}

/* A block as the strings of an environment, and back; what is not of that form is refused. */
static void strings(void) {
    static u8 data[200000];
    static char text[300000];
    char *env[10] = {"PATH=/bin", "KRUN_BOOT=@1"}; /* the payload's own is in front */
    size_t sizes[] = {1, 2, 3, 1000, KR_BOOT_PIECE, KR_BOOT_PIECE + 1, sizeof data}, got, room;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (u8)kr_test_random();
    for (size_t k = 0; k < KR_COUNT(sizes); k++) {
        CHECK(kr_boot_text_size(sizes[k]) <= sizeof text);
        long n = kr_boot_encode(text, data, sizes[k]);
        char *s = text;
        for (long i = 0; i < n; i++, s += strlen(s) + 1)
            env[2 + i] = s;
        env[2 + n] = NULL;
        CHECK((size_t)(s - text) <= kr_boot_text_size(sizes[k]));
        u8 *back = kr_boot_decode(env, 2 + (u32)n, &got, &room);
        CHECK(back && got == sizes[k] && memcmp(back, data, got) == 0);
        CHECK(env[2] == NULL && env[1]); /* cut off: none of it is the payload's */
        if (back)
            kr_free(back, room);
    }
    const char *bad[] = {"KRUN_BOOT=@",
                         "KRUN_BOOT=@0",
                         "KRUN_BOOT=@3",
                         "KRUN_BOOT=@1 ",
                         "KRUN_BOOT=@99999999999999999999",
                         "KRUN_BOOT=3",
                         "PATH=x",
                         "",
                         "KRUN_BOOT=@2"};
    for (size_t i = 0; i < KR_COUNT(bad); i++) {
        char *e[] = {"PATH=/bin", "KRUN_BOOT=AAAA", (char *)bad[i], NULL};
        CHECK(kr_boot_decode(e, 3, &got, &room) == NULL);
        CHECK(e[0] && e[1] && e[2]);
    }
    char *e[] = {"KRUN_BOOT=AA*A", "KRUN_BOOT=@1", NULL};
    CHECK(kr_boot_decode(e, 2, &got, &room) == NULL);
    CHECK(kr_boot_decode(e, 0, &got, &room) == NULL);
    static char longer[KR_BOOT_PIECE * 2]; /* more than a piece holds */
    memset(longer, 'A', sizeof longer - 1);
    memcpy(longer, "KRUN_BOOT=", 10);
    e[0] = longer;
    CHECK(kr_boot_decode(e, 2, &got, &room) == NULL);
}

void test_main(void) {
    plain();
    strings();
    fuzz();
}
