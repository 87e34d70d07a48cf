// Types and options of mount(2) and fsconfig(2): magic flags of old programs, unknown types and options,
// options in a text. krun: host
#include "guest.h"
#include <sys/mount.h>
#define MAGIC 0xC0ED0000UL

static long config(int fs, unsigned cmd, const char *key, const void *value, int aux) {
    return syscall(SYS_fsconfig, fs, cmd, key, value, aux);
}

static void flags(void) {
    TRY(mount("t", "at", "tmpfs", MAGIC, "size=1m")),
        TRY(mount("x", "at", NULL, MAGIC | MS_REMOUNT, "size=2m"));
    TRY(mount("at", "to", NULL, MAGIC | MS_MOVE, NULL)), TRY(umount2("at", 0)), TRY(umount2("to", 0));
    TRY(mount("at", "to", NULL, MAGIC | MS_BIND, NULL)), TRY(umount2("to", 0));
    TRY(mount("none", "to", NULL, MAGIC | MS_MOVE, NULL));
}

static void types(void) {
    TRY(mount("t", "at", "nofs", 0, NULL)), TRY(mount("t", "at", "nofs", 0, "size=1m")),
        TRY(mount("t", "none", "nofs", 0, NULL));
    TRY(mount("t", "at", "tmpfs.x", 0, NULL)), TRY(mount("t", "at", "", 0, NULL)),
        TRY(mount("t", "at", NULL, 0, NULL)), TRY(mount("t", "at", (char *)16, 0, NULL)),
        TRY(mount("t", "at", "tmpfs", 0, (char *)16));
    char type[200];
    memset(type, 'x', sizeof type - 1), type[sizeof type - 1] = 0;
    TRY(mount("t", "at", type, 0, NULL)), SHOW(syscall(SYS_fsopen, "nofs", 0)),
        SHOW(syscall(SYS_fsopen, "nofs", 99)), SHOW(syscall(SYS_fsopen, NULL, 0)),
        SHOW(syscall(SYS_fsopen, "", 0));
}

static void options(void) {
    TRY(mount("t", "at", "tmpfs", 0, "size=1m,mode=700")), TRY(umount2("at", 0));
    TRY(mount("t", "at", "tmpfs", 0, "size=1m,nothing=1")), TRY(mount("t", "at", "tmpfs", 0, ",,size=1m,")),
        TRY(umount2("at", 0));
    TRY(mount("t", "at", "tmpfs", 0, "")), TRY(umount2("at", 0));
    char page[4096];
    memset(page, 'x', sizeof page), memcpy(page, "size=1m,", 8);
    TRY(mount("t", "at", "tmpfs", 0, page));
    memset(page, ',', sizeof page);
    TRY(mount("t", "at", "tmpfs", 0, page)), TRY(umount2("at", 0));
}

static void steps(void) {
    char word[300];
    memset(word, 'x', sizeof word - 1), word[sizeof word - 1] = 0;
    int fs = (int)MUST(syscall(SYS_fsopen, "tmpfs", 1)), dir = (int)MUST(open("at", O_PATH));
    SHOW(config(fs, FSCONFIG_SET_STRING, "source", "it", 0)),
        SHOW(config(fs, FSCONFIG_SET_STRING, word, "1", 0)),
        SHOW(config(fs, FSCONFIG_SET_STRING, "size", word, 0)),
        SHOW(config(fs, FSCONFIG_SET_STRING, NULL, "1", 0)),
        SHOW(config(fs, FSCONFIG_SET_STRING, (char *)16, "1", 0)),
        SHOW(config(fs, FSCONFIG_SET_FLAG, "nothing", NULL, 0)),
        SHOW(config(fs, FSCONFIG_SET_FLAG, "size", "1", 0));
    SHOW(config(fs, FSCONFIG_SET_PATH, "size", "at", AT_FDCWD)),
        SHOW(config(fs, FSCONFIG_SET_PATH, "size", (char *)16, AT_FDCWD)),
        SHOW(config(fs, FSCONFIG_SET_PATH_EMPTY, "size", "", dir)),
        SHOW(config(fs, FSCONFIG_SET_FD, "size", NULL, dir)),
        SHOW(config(fs, FSCONFIG_SET_FD, "size", NULL, 999)),
        SHOW(config(dir, FSCONFIG_SET_STRING, "size", "1", 0));
    close(fs), close(dir);
}

int main(void) {
    if (unshare(CLONE_NEWNS) < 0)
        return 0;
    MUST(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(mkdir("at", 0755)), MUST(mkdir("to", 0755));
    MUST(mount(".", ".", NULL, MS_BIND, NULL)), MUST(chdir("."));
    flags(), types(), options(), steps();
    return wrong;
}
