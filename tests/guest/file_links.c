// link, symlink, readlink, unlink of an open file, loops and depths: link(2), symlink(2).
#include "guest.h"
int main(int argc, char **argv) {
    char b[10] = "zzzzzzzzz", text[4] = "";
    int fd = file_with("f", "abc");
    TRY(link("f", "g"));
    TRY(link("f", "g"));
    TRY(symlink("target-of-it", "s"));
    SHOW(readlink("s", b, 6)), say("%s", b);
    TRY(readlink("f", b, 6));
    TRY(readlink("s", b, 0));
    TRY(unlink("f"));
    TRY(unlink("g"));
    pread(fd, text, 3, 0), say("still %s", text);
    struct stat st;
    fstat(fd, &st), say("links %ld", (long)st.st_nlink);
    symlink("l0", "l1");
    close(file_with("l0", "end"));
    char from[10], to[10];
    for (int i = 1; i < 45; i++)
        sprintf(from, "l%d", i), sprintf(to, "l%d", i + 1), symlink(from, to);
    TRY(open("l40", O_RDONLY));
    TRY(open("l41", O_RDONLY));
    mkdir("d", 0700);
    TRY(unlink("d"));
    TRY(link("d", "h"));
    TRY(rmdir("l0"));
    return 0;
}
