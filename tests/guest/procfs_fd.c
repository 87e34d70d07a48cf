// /proc/self/fd lists exactly the open descriptors; links and opening through them: proc(5).
// krun: static
#include "guest.h"
#include <dirent.h>
static void list(const char *path) {
    DIR *d = opendir(path);
    int seen[1000] = {0}, n = 0, mine = dirfd(d);
    char text[300] = "";
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            n++, seen[atoi(e->d_name) % 1000]++;
    for (int i = 0; i < 1000; i++)
        if (seen[i] && i != mine)
            sprintf(text + strlen(text), " %d", i);
    say("%d:%s, own %d", n, text, seen[mine]);
    closedir(d);
}
int main(int argc, char **argv) {
    char link[4096] = "", path[60];
    int p[2], fd = file_with("f", "text");
    MUST(pipe(p)), dup2(fd, 77);
    list("/proc/self/fd"), list("/proc/thread-self/fd"), list("/dev/fd"), list("/proc/self/fdinfo");
    sprintf(path, "/proc/%d/fd", getpid()), list(path);
    ssize_t n = readlink("/proc/self/fd/77", link, 4095);
    say("%s", n > 2 ? link + n - 2 : "?");
    memset(link, 0, sizeof(link)), sprintf(path, "/proc/self/fd/%d", p[0]), readlink(path, link, 4095),
        say("%.6s", link);
    int w = open(path, O_WRONLY); // the write end of the same pipe
    write(w, "hi", 2), SHOW(read(p[0], link, 10));
    TRY(readlink("/proc/self/fd/500", link, 10)), TRY(open("/proc/self/fd/500", O_RDONLY)),
        TRY(open("/dev/fd/77", O_RDONLY)), TRY(stat("/proc/self/fd/900", &(struct stat){0}));
    char *s = slurp("/proc/self/fdinfo/77");
    say("%.7s", s ? s : errno_name(errno));
    int d = MUST(open("/proc/self/fd", O_PATH));
    TRY(openat(d, "77", O_RDONLY)), TRY(faccessat(d, "3", F_OK, 0)), TRY(faccessat(d, "600", F_OK, 0));
    int hidden = 0;
    for (int i = 78; i < 20000; i++)
        hidden += fcntl(i, F_GETFD) != -1 && i != d && i != w;
    say("unexpected descriptors %d", hidden - 0);
    return 0;
}
