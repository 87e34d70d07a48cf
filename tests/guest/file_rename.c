// rename(2) and renameat2: replace, exchange, no-replace, directories, errors.
#include "guest.h"
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif
static void show(const char *name) {
    char *s = slurp(name);
    say("%s: %s", name, s ? s : errno_name(errno));
}
int main(int argc, char **argv) {
    close(file_with("a", "A")), close(file_with("b", "B")), mkdir("d", 0755), mkdir("e", 0755),
        close(file_with("e/x", "X"));
    TRY(rename("a", "b")), show("a"), show("b");
    close(file_with("a", "A2"));
    TRY(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE));
    TRY(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE)), show("a"), show("b");
    TRY(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", 3));
    TRY(rename("a", "d"));
    TRY(rename("d", "a"));
    TRY(rename("d", "e"));
    TRY(rename("e", "d")), show("d/x");
    TRY(rename("d", "d/below"));
    TRY(rename("missing", "x"));
    TRY(rename("a", "missing/x"));
    TRY(rename("a", "/proc/x"));
    TRY(rename(".", "x"));
    return 0;
}
