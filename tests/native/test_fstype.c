/* SPDX-License-Identifier: Apache-2.0
 * sys/fstype.c: types and options that a payload may mount. Sources: fstype.c
 */
#include "harness.h"
#include "sys/fstype.h"

#define HIDDEN 961
int kr_fd_hidden(u64 fd) { return fd == HIDDEN; }

static void types(void) {
    static const char *const served[] = {"tmpfs", "overlay", "proc", "fuse.sshfs", "ext4", "nfs4", "9p"};
    static const char *const refused[] = {"binfmt_misc", "binfmt_misc.x", "coda",  "nofs", "",
                                          ".tmpfs",      "tmp",           "tmpfsx"};
    for (u32 i = 0; i < KR_COUNT(served); i++)
        CHECK(kr_fstype_served(served[i]));
    for (u32 i = 0; i < KR_COUNT(refused); i++)
        CHECK(!kr_fstype_served(refused[i]));
}

static void options(void) {
    CHECK(kr_fs_option_served("size", "1m"));
    CHECK(kr_fs_option_served("trans", "tcp"));
    CHECK(kr_fs_option_served("trans", NULL));
    CHECK(kr_fs_option_served("fd", "3"));
    CHECK(!kr_fs_option_served("rfdno", "3"));
    CHECK(!kr_fs_option_served("wfdno", NULL));
    CHECK(!kr_fs_option_served("trans", "fd"));
    CHECK(!kr_fs_option_served("trans", "unix"));
    /* a key that contains its value (legacy_parse_param()) */
    static const char *const joined[] = {"rfdno=4", "wfdno=", "trans=fd", "trans=unix", "fd=961"};
    for (u32 i = 0; i < KR_COUNT(joined); i++)
        CHECK(!kr_fs_option_served(joined[i], NULL));
    CHECK(!kr_fs_option_served("rfdno=4", "x"));
    CHECK(kr_fs_option_served("trans=tcp", NULL));
    CHECK(kr_fs_option_served("fd=9", NULL));
    /* kstrtouint() with base 0 */
    static const char *const numbers[] = {"961",   "0961", "01701", "0x3c1",
                                          "0X3C1", "+961", "961\n", "961garbage"};
    for (u32 i = 0; i < KR_COUNT(numbers); i++)
        CHECK(kr_fs_option_served("fd", numbers[i]) == (i == 1));
    CHECK(kr_fs_option_served("fd", "99999999999999999999"));
    CHECK(!kr_fs_option_served("fd", "00000000000000000000000000000000000000001701"));
}

static void texts(void) {
    CHECK(kr_fs_options_served(""));
    CHECK(kr_fs_options_served(",,size=1m,,mode=0700,"));
    CHECK(kr_fs_options_served("lowerdir=/a:/b,upperdir=/c,workdir=/d"));
    CHECK(kr_fs_options_served("xtrans=fd,transx=unix,trans=unixx,trans=tcp"));
    CHECK(!kr_fs_options_served("trans=unix"));
    CHECK(!kr_fs_options_served("version=9p2000.L,trans=fd"));
    CHECK(!kr_fs_options_served("a,rfdno=4,b"));
    CHECK(!kr_fs_options_served("context=\"a,wfdno=4\""));
    CHECK(!kr_fs_options_served("fd=961,rootmode=40000"));
    CHECK(kr_fs_options_served("fd=,rootmode=40000,user_id=961"));
    CHECK(!kr_fs_options_served("\001\002binary"));
}

void test_main(void) {
    types();
    options();
    texts();
}
