/* SPDX-License-Identifier: Apache-2.0
 * process/corefile.c: names by core_pattern, and the making of the file where links of the payload lie in its way.
 * process/coremem.c: the paths of mappings.
 * Sources: corefile.c coremem.c kr_alloc.c */
#include "harness.h"
#include "machine/vma.h"
#include "process/core.h"
#include <linux/fcntl.h>
#include <linux/stat.h>

struct kr_vma *kr_vma_find(struct kr_mm *mm, u64 addr) {
    return (void)mm, (void)addr, NULL;
}

static const char *name(const char *pattern, const char *comm, u32 uses_pid) {
    static char out[64];
    struct kr_core_name n = {
        .pid = 12, .uid = 3, .sig = 6, .uses_pid = uses_pid, .comm = comm, .host = "h", .exe = "/a/b"};
    kr_core_format(out, sizeof out, pattern, &n);
    return out;
}

static void names(void) {
    CHECK(!strcmp(name("", "x", 0), "core"));
    CHECK(!strcmp(name("core", "x", 1), "core.12"));
    CHECK(!strcmp(name("%e.%p%%%u\n", "x", 1), "x.12%3"));
    CHECK(!strcmp(name("/c/%E", "x", 0), "/c/!a!b"));
    CHECK(!strcmp(name("%e", "../../x", 0), "..!..!x"));
    CHECK(!strcmp(name("%e", "..", 0), "!."));
    CHECK(!strcmp(name("%e/%", "", 0), "!/"));
    CHECK(strlen(name("%e%e%e%e%e%e%e%e%e%e", "0123456789", 0)) == 63);
}

static void paths(void) {
    CHECK_STR(kr_core_path("00400000-00401000 r--p 00001000 fe:00 12        /bin/a b/c"), "/bin/a b/c");
    CHECK_STR(kr_core_path("7f0000000000-7f0000001000 rw-s 00000000 00:01 7   /memfd:x (deleted)"),
              "/memfd:x (deleted)");
    CHECK_STR(kr_core_path("00400000-00401000 rw-p 00000000 00:00 0         [anon:a/b]"), "");
    CHECK_STR(kr_core_path("00400000-00401000 rw-s 00000000 00:01 9         [anon_shmem:/etc/x]"), "");
    CHECK_STR(kr_core_path("00400000-00401000 rw-p 00000000 00:00 0 "), "");
    CHECK_STR(kr_core_path("00400000-00401000 rw-s 00000000 00:08 9         socket:[9]"), "");
    CHECK_STR(kr_core_path("00400000"), "");
}

static long make(const char *text) {
    char path[256];
    kr_snprintf(path, sizeof path, "%s", text);
    long fd = kr_core_create(path);
    CHECK(!strcmp(path, text));
    return fd;
}

static int exists(const char *path) { return kr_sys3(__NR_faccessat, AT_FDCWD, path, 0) == 0; }

static void files(void) {
    char dir[64], path[300];
    struct statx st;
    kr_snprintf(dir, sizeof dir, "/tmp/krun-corefile-%ld", kr_sys0(__NR_getpid));
    CHECK(kr_sys2(__NR_mkdir, dir, 0700) == 0 && kr_sys1(__NR_chdir, dir) == 0);
    kr_sys2(__NR_mkdir, "d", 0755);
    kr_sys2(__NR_symlink, "d", "link");
    kr_sys2(__NR_symlink, "/proc/self/cwd/d", "magic");
    kr_sys2(__NR_symlink, "/proc/self/root", "root");
    long fd = make("core");
    CHECK(fd >= 0 && kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_MODE, &st) == 0 &&
          (st.stx_mode & 0777) == 0600);
    kr_sys2(__NR_symlink, "target", "d/a");
    CHECK(make("d/a") >= 0 && !exists("d/target")); /* the link is replaced, not followed */
    CHECK(make("link/b") >= 0 && exists("d/b"));    /* links of other kinds are followed, as by the kernel */
    kr_snprintf(path, sizeof path, "%s/d/c", dir);
    CHECK(make(path) >= 0 && exists("d/c"));
    CHECK(make("magic/e") == -ELOOP && !exists("d/e"));
    kr_snprintf(path, sizeof path, "root%s/d/f", dir);
    CHECK(make(path) == -ELOOP && !exists("d/f"));
    CHECK(make("magic/b") == -ELOOP && exists("d/b")); /* nothing is removed there, either */
    CHECK(make("none/g") == -ENOENT && make("d/") < 0 && make("d/..") < 0);
    CHECK(make("d") == -EEXIST);
    static const char *const made[] = {"core", "link", "magic", "root", "d/a", "d/b", "d/c"};
    for (u32 i = 0; i < KR_COUNT(made); i++)
        CHECK(kr_sys3(__NR_unlinkat, AT_FDCWD, made[i], 0) == 0);
    CHECK(kr_sys3(__NR_unlinkat, AT_FDCWD, "d", AT_REMOVEDIR) == 0);
    CHECK(kr_sys3(__NR_unlinkat, AT_FDCWD, dir, AT_REMOVEDIR) == 0);
}

void test_main(void) {
    names();
    paths();
    files();
}
