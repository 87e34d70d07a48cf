// The *at calls relative to a descriptor: openat(2), mkdirat(2), unlinkat(2), renameat(2), fstatat(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    char b[20] = "";
    struct stat s;
    mkdir("d", 0755);
    int d = MUST(open("d", O_RDONLY | O_DIRECTORY)), p = MUST(open("d", O_PATH));
    TRY(mkdirat(d, "sub", 0700));
    TRY(openat(d, "sub/f", O_CREAT | O_RDWR, 0600));
    TRY(linkat(d, "sub/f", p, "g", 0));
    TRY(symlinkat("sub/f", d, "s"));
    SHOW(readlinkat(p, "s", b, 20));
    say("%s", b);
    TRY(fstatat(d, "s", &s, AT_SYMLINK_NOFOLLOW));
    say("link %d, size %ld", S_ISLNK(s.st_mode), (long)s.st_size);
    TRY(fchmodat(d, "g", 0644, 0));
    TRY(fstatat(p, "sub/f", &s, 0));
    say("mode %o, links %ld", s.st_mode, (long)s.st_nlink);
    TRY(faccessat(d, "g", R_OK, 0));
    TRY(renameat(d, "g", AT_FDCWD, "outside"));
    TRY(fstatat(p, "", &s, AT_EMPTY_PATH));
    TRY(unlinkat(d, "sub", 0));
    TRY(unlinkat(d, "sub", AT_REMOVEDIR));
    TRY(unlinkat(d, "sub/f", 0));
    TRY(unlinkat(d, "sub", AT_REMOVEDIR));
    TRY(openat(99, "x", O_RDONLY));
    TRY(openat(99, "/", O_RDONLY));
    TRY(openat(MUST(open("outside", O_RDONLY)), "x", O_RDONLY));
    TRY(unlinkat(d, "s", 0x8));
    return 0;
}
