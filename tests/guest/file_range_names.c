// Names in the form of those of /proc/PID/map_files (two hexadecimal numbers) are ordinary names elsewhere:
// open(2), proc(5).
#include "guest.h"
#include <sys/socket.h>
#include <sys/un.h>

static void *idle(void *arg) {
    pause();
    return arg;
}

static void bound(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    strcpy(a.sun_path, path), TRY(bind(s, (void *)&a, sizeof a)), close(s), TRY(unlink(path));
}

// Opens at the lowest number.
static void opens(const char *path, int flags) {
    int low = MUST(dup(1)), fd;
    close(low), fd = open(path, flags, 0600);
    say("open %s %o: %s, lowest %d", path, flags, fd < 0 ? errno_name(errno) : "ok", fd == low), close(fd);
}

static void all(void) {
    char text[64];
    struct stat st;
    TRY(mkdir("2024-05", 0755)), TRY(mkdir("2024-05/06-07", 0755)),
        opens("2024-05/06-07/1-2", O_CREAT | O_RDWR);
    opens("2024-05/06-07/1-2", O_CREAT | O_EXCL | O_RDWR), opens("2024-05/06-07/1-2", O_RDONLY);
    opens("2024-05/06-07/../06-07/1-2", O_RDONLY), TRY(symlink("2024-05", "a-b"));
    opens("a-b", O_RDONLY | O_DIRECTORY), opens("a-b", O_PATH | O_NOFOLLOW), opens("a-b/", O_RDONLY);
    SHOW(readlink("a-b", text, sizeof text)), TRY(stat("a-b", &st)), TRY(lstat("a-b", &st));
    TRY(access("a-b/06-07/1-2", R_OK)), TRY(rename("a-b/06-07/1-2", "2-3")), TRY(link("2-3", "3-4"));
    TRY(unlink("2-3")), TRY(unlink("3-4")), TRY(rmdir("a-b/06-07/")), opens("a-b/06-07/x", O_RDONLY);
    opens("1-1/", O_CREAT | O_RDWR), opens("none/1-1", O_CREAT | O_RDWR), TRY(mkfifo("9-9", 0600));
    opens("9-9", O_RDWR), TRY(unlink("9-9")), bound("2024-05/7-7"), bound("7-8");
    int d = MUST(open("2024-05", O_PATH));
    TRY(mkdirat(d, "1-1", 0700)), TRY(unlinkat(d, "1-1", AT_REMOVEDIR)), TRY(openat(999, "1-2", O_RDONLY));
    TRY(mkdirat(999, "1-2", 0700)), close(d), TRY(unlink("a-b")), TRY(rmdir("2024-05"));
    TRY(truncate("1-9", 0)), TRY(chdir("1-9"));
}

int main(void) {
    all(), thread(idle, NULL), all();
    return wrong;
}
