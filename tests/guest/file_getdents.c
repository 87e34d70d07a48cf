// getdents64(2): every entry once, types, seek and rewind, small buffers; a thousand files.
// krun: static
#include "guest.h"
#include <dirent.h>
int main(int argc, char **argv) {
    char name[40], small[30];
    mkdir("d", 0755);
    for (int i = 0; i < 1000; i++)
        sprintf(name, "d/file%d", i), close(open(name, O_CREAT | O_WRONLY, 0600));
    mkdir("d/dir", 0700), symlink("x", "d/link");
    DIR *d = opendir("d");
    int files = 0, sum = 0, others = 0;
    for (struct dirent *e; (e = readdir(d));) {
        int n;
        if (sscanf(e->d_name, "file%d", &n) == 1)
            files++, sum += n;
        else
            others++, sum +=
                      e->d_type == DT_UNKNOWN
                          ? 0
                          : 100000 * (!strcmp(e->d_name, "link") ? e->d_type == DT_LNK : e->d_type == DT_DIR);
    }
    say("files %d, sum %d, others %d", files, sum, others);
    rewinddir(d);
    readdir(d), readdir(d);
    long at = telldir(d);
    struct dirent *e = readdir(d);
    strcpy(name, e->d_name), seekdir(d, at), e = readdir(d);
    EXPECT(!strcmp(name, e->d_name));
    int fd = MUST(open("d", O_RDONLY));
    TRY(syscall(SYS_getdents64, fd, small, 10));
    TRY(syscall(SYS_getdents64, 0, small, 30));
    rmdir("d/dir");
    TRY(rmdir("d"));
    int empty = (mkdir("e", 0700), MUST(open("e", O_RDONLY)));
    rmdir("e");
    TRY(syscall(SYS_getdents64, empty, name, 40));
    return wrong;
}
