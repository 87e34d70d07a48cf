// Who may look at another process: the same user, unless it is not dumpable or has changed its user:
// ptrace(2), proc(5).
#include "guest.h"
#include <dirent.h>
#include <grp.h>
#include <sys/prctl.h>

#define NEED(c) must_((c) ? 0 : -1, #c)

static const char *result(long r) { return r < 0 ? errno_name(errno) : "ok"; }

static void look(const char *who, pid_t p) {
    char path[60], text[300];
    struct stat st;
    static const char *const links[] = {"exe", "cwd", "root", "fd/0", "ns/uts"};
    static const char *const texts[] = {"maps", "environ", "auxv", "smaps_rollup", "fdinfo/0"};
    for (size_t i = 0; i < COUNT(links); i++) {
        sprintf(path, "/proc/%d/%s", p, links[i]);
        const char *read_ = result(readlink(path, text, sizeof(text)));
        const char *stat_ = result(stat(path, &st));
        int fd = open(path, O_PATH);
        say("%s %s: %s, stat %s, open %s", who, links[i], read_, stat_, result(fd));
        close(fd);
    }
    for (size_t i = 0; i < COUNT(texts); i++) {
        sprintf(path, "/proc/%d/%s", p, texts[i]);
        int fd = open(path, O_RDONLY);
        // The kernel opens some and lets nothing be read.
        long n = fd < 0 ? -1 : read(fd, text, sizeof(text));
        say("%s %s: %s", who, texts[i], n > 0 ? "ok" : "refused"), close(fd);
    }
    sprintf(path, "/proc/%d/fd", p);
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += !strcmp(e->d_name, "0");
    say("%s fd: %s %d", who, result(d ? 0 : -1), n);
    if (d)
        closedir(d);
    sprintf(path, "/proc/%d/stat", p);
    EXPECT(access(path, R_OK) == 0);
}

static int ready[2];

// A process that waits, after it has become user uid, executed itself anew (then it is dumpable) or not.
static pid_t waits(uid_t uid, int exec, int dumpable) {
    char c;
    pid_t p = fork();
    if (!p) {
        if (uid)
            NEED(setgroups(0, NULL) == 0 && setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
        if (exec) {
            int self = open("/proc/self/exe", O_RDONLY);
            char number[12], dump[12];
            sprintf(number, "%d", ready[1]), sprintf(dump, "%d", dumpable);
            fexecve(self, (char *[]){"waits", number, dump, NULL}, environ);
            _exit(99);
        }
        if (!dumpable)
            prctl(PR_SET_DUMPABLE, 0);
        NEED(write(ready[1], "r", 1) == 1);
        pause();
    }
    NEED(read(ready[0], &c, 1) == 1);
    return p;
}

int main(int argc, char **argv) {
    if (argc == 3) {
        if (!atoi(argv[2]))
            prctl(PR_SET_DUMPABLE, 0);
        NEED(write(atoi(argv[1]), "r", 1) == 1);
        pause();
        return 0;
    }
    NEED(pipe(ready) == 0 && close(0) == 0 && open("/dev/null", O_RDONLY) == 0);
    pid_t of[] = {waits(1000, 1, 1), waits(1000, 1, 0), waits(1000, 0, 1), waits(1001, 1, 1), waits(0, 1, 1)};
    static const char *const name[] = {"same user", "undumpable", "changed user", "other user", "root"};
    // As user 1000 without a capability.
    pid_t c = CHILD(
        NEED(setgroups(0, NULL) == 0 && setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
        for (size_t i = 0; i < COUNT(of); i++) look(name[i], of[i]);
        say("dumpable %d", prctl(PR_GET_DUMPABLE)));
    reap("looker", c);
    for (size_t i = 0; i < COUNT(of); i++)
        kill(of[i], SIGKILL), waitpid(of[i], NULL, 0);
    return wrong;
}
