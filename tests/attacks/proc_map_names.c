// The names below /proc/PID/map_files are the ranges of a process's mappings, the monitor's included. A guess that is right must
// look like one that is wrong, whatever call names it and by whatever way: else the answers tell where the monitor lies. The
// program knows ranges that are there: those of its own mappings, which lie at the same addresses in the monitor's process.
#include "attack.h"
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

static char right[16][48], wrong[48] = "123000-124000", here[64] = "/tmp/map-XXXXXX";
static int rights;

static void ranges(void) {
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && rights < 16 && fgets(line, sizeof line, f))
        if (strchr(line, '/')) { // of a file
            char *to;
            unsigned long from = strtoul(line, &to, 16); // without zeros in front
            snprintf(right[rights++], sizeof right[0], "%lx-%lx", from, strtoul(to + 1, NULL, 16));
        }
    if (f)
        fclose(f);
    if (!rights)
        attack_broken("no mapping of a file");
}

static long open2(int dir, const char *path, uint64_t flags, uint64_t resolve) {
    struct open_how how = {.flags = flags, .mode = flags & O_CREAT ? 0600 : 0, .resolve = resolve};
    return syscall(SYS_openat2, dir, path, &how, sizeof how);
}

static long bound(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    long r = bind(s, (struct sockaddr *)&a, sizeof a);
    int e = errno;
    close(s);
    errno = e;
    return r;
}

static int link_to(const char *path, char *name, size_t size) {
    snprintf(name, size, "%s/link", here);
    unlink(name);
    return symlink(path, name);
}

#define CALLS 34
// The errno of call number `way` on the name `range`; 0: it has worked.
static int answer(int way, const char *range) {
    char path[96], slash[100], link[128], text[64], below[112];
    struct stat st;
    long r = -1;
    snprintf(path, sizeof path, "/proc/self/map_files/%s", range);
    snprintf(slash, sizeof slash, "%s/", path);
    snprintf(below, sizeof below, "%s/../comm", path);
    int dir = open("/proc/self/map_files", O_PATH | O_DIRECTORY), top = open("/", O_PATH);
    if (dir < 0 || link_to(path, link, sizeof link) < 0)
        attack_broken("the directory, the link");
    char fromtop[160];
    snprintf(fromtop, sizeof fromtop, "%s", link + 1);
    errno = 0;
    switch (way) {
    case 0:
        r = open(path, O_RDONLY);
        break;
    case 1:
        r = open(path, O_PATH);
        break;
    case 2:
        r = open(path, O_PATH | O_NOFOLLOW);
        break;
    case 3:
        r = open(path, O_RDONLY | O_NOFOLLOW);
        break;
    case 4:
        r = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        break;
    case 5:
        r = open(path, O_RDWR | O_CREAT, 0600);
        break;
    case 6:
        r = open(path, O_RDONLY | O_DIRECTORY);
        break;
    case 7:
        r = open(slash, O_RDONLY | O_CREAT, 0600);
        break;
    case 8:
        r = open(below, O_RDONLY);
        break;
    case 9:
        r = openat(dir, range, O_RDONLY);
        break;
    case 10:
        r = stat(path, &st);
        break;
    case 11:
        r = lstat(path, &st);
        break;
    case 12:
        r = fstatat(dir, range, &st, AT_SYMLINK_NOFOLLOW);
        break;
    case 13:
        r = readlink(path, text, sizeof text);
        break;
    case 14:
        r = readlinkat(dir, range, text, sizeof text);
        break;
    case 15:
        r = access(path, F_OK);
        break;
    case 16:
        r = mkdir(path, 0700);
        break;
    case 17:
        r = mkdirat(dir, range, 0700);
        break;
    case 18:
        r = unlink(path);
        break;
    case 19:
        r = rename(path, "/tmp/there");
        break;
    case 20:
        r = symlink("x", path);
        break;
    case 21:
        r = syscall(SYS_link, path, "/tmp/there");
        break;
    case 22:
        r = bound(path);
        break;
    case 23:
        r = open2(dir, range, O_RDONLY, RESOLVE_BENEATH);
        break;
    case 24:
        r = open2(AT_FDCWD, path, O_RDONLY, RESOLVE_NO_MAGICLINKS);
        break;
    case 25:
        r = open2(AT_FDCWD, path, O_RDONLY, RESOLVE_NO_SYMLINKS);
        break;
    case 26:
        r = open2(dir, range, O_RDWR | O_CREAT | O_EXCL, RESOLVE_IN_ROOT);
        break;
    case 27:
        r = open2(AT_FDCWD, path, O_RDONLY, RESOLVE_NO_XDEV);
        break;
    case 28:
        r = open(link, O_RDONLY);
        break;
    case 29:
        r = stat(link, &st);
        break;
    case 30:
        r = open2(AT_FDCWD, link, O_RDONLY, RESOLVE_NO_MAGICLINKS);
        break;
    case 31:
        r = open2(top, fromtop, O_RDONLY, RESOLVE_IN_ROOT);
        break;
    case 32:
        r = syscall(SYS_fchdir, dir) < 0 ? -1 : open(range, O_RDONLY);
        break;
    case 33:
        r = truncate(path, 0);
        break;
    }
    int e = r < 0 ? errno : 0;
    close(dir), close(top);
    if (r > 2)
        close((int)r);
    return e;
}

static void all(const char *how) {
    for (int way = 0; way < CALLS; way++)
        for (int i = 0; i < rights; i++) {
            int is = answer(way, right[i]), not = answer(way, wrong);
            if (is != not )
                attack_won("call %d%s: errno %d of a name that is there, %d of another", way, how, is, not );
        }
}

static void *idle(void *arg) {
    pause();
    return arg;
}

int main(void) {
    pthread_t thread;
    if (!mkdtemp(here))
        attack_broken("mkdtemp");
    ranges();
    all("");
    if (pthread_create(&thread, NULL, idle, NULL))
        attack_broken("pthread_create");
    all(" with threads");
    attack_lost();
}
