// Bad path pointers and unterminated paths: EFAULT; too long ones: ENAMETOOLONG: path_resolution(7).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(2), longer[5000];
    munmap(p + PAGE, PAGE);
    memset(p, '/', PAGE);
    memset(longer, 'n', 4999), longer[4999] = 0;
    TRY(open(NULL, O_RDONLY));
    TRY(open(p, O_RDONLY)); // 4096 slashes without an end
    strcpy(p + PAGE - 5, "/tmp");
    TRY(access(p + PAGE - 5, F_OK)); // ends exactly with the page
    TRY(open((char *)-100L, O_RDONLY));
    TRY(stat(longer, (void *)p));
    longer[300] = 0;
    TRY(mkdir(longer, 0777));
    TRY(open("", O_RDONLY));
    TRY(rename("a", (char *)1));
    TRY(symlink(p + PAGE, "x"));
    TRY(execve(NULL, argv, NULL));
    TRY(chdir((char *)0x123));
    return 0;
}
