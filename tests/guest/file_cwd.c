// chdir, fchdir, getcwd, a removed directory, long paths: getcwd(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    char b[8192], small[3];
    MUST(mkdir("a", 0755)), MUST(mkdir("a/b", 0755));
    int top = MUST(open(".", O_RDONLY));
    size_t base = strlen(getcwd(b, sizeof(b)));
    TRY(chdir("a/b")), say("%s", getcwd(b, sizeof(b)) + base);
    TRY(fchdir(top)), say("[%s]", getcwd(b, sizeof(b)) + base);
    TRY(syscall(SYS_getcwd, small, 3));
    TRY(chdir("missing")), TRY(chdir(argv[0])), TRY(fchdir(0));
    chdir("a/b"), rmdir("../b");
    TRY(syscall(SYS_getcwd, b, 100));
    TRY(open("x", O_CREAT | O_RDWR, 0600));
    TRY(chdir(".."));
    say("%s", getcwd(b, sizeof(b)) + base);
    char name[201];
    memset(name, 'n', 200), name[200] = 0;
    for (int i = 0; i < 25; i++)
        mkdir(name, 0700), chdir(name);
    TRY(syscall(SYS_getcwd, b, 8192)); // longer than a page
    for (int i = 0; i < 25; i++)
        chdir(".."), rmdir(name);
    return 0;
}
