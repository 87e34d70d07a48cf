// Who may look at another process from inside a landlock domain: only into its own domain and those below it;
// what a domain's rules say of /proc holds for texts as well: landlock(7), "Ptrace restrictions".
#include "guest.h"
#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#define CREATE 444
#define RESTRICT 446
#define READ_FILE 4
#define READ_DIR 8
#define MAKE_FIFO 1024

static int ready[2];

static const char *result(long r) { return r < 0 ? errno_name(errno) : "ok"; }

// Enters a domain that handles `what` and has no rule.
static void enter(uint64_t what) {
    int set = MUST(syscall(CREATE, &what, sizeof what, 0));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(syscall(RESTRICT, set, 0));
    close(set);
}

static int lists(pid_t p, const char *name) {
    char path[60];
    sprintf(path, "/proc/%d/%s", p, name);
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += !strcmp(e->d_name, "0");
    if (d)
        closedir(d);
    return n;
}

static void texts(const char *who, pid_t p) {
    static const char *const names[] = {"maps", "environ", "auxv", "smaps_rollup", "fdinfo/0"};
    char path[60], text[300], line[300];
    int at = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        sprintf(path, "/proc/%d/%s", p, names[i]);
        int fd = open(path, O_RDONLY);
        long n = fd < 0 ? -1 : read(fd, text, sizeof text); // the kernel opens some and lets nothing be read
        at += sprintf(line + at, ", %s %s", names[i], n > 0 ? "ok" : "refused"), close(fd);
    }
    say("%s%s, fd %d, fdinfo %d", who, line + 1, lists(p, "fd"), lists(p, "fdinfo"));
}

static void look(const char *who, pid_t p) {
    static const char *const links[] = {"exe", "cwd", "root", "fd/0", "ns/uts"};
    char path[60], text[300];
    struct stat st;
    for (size_t i = 0; i < COUNT(links); i++) {
        sprintf(path, "/proc/%d/%s", p, links[i]);
        const char *read_ = result(readlink(path, text, sizeof text));
        const char *stat_ = result(stat(path, &st));
        int fd = open(path, O_PATH);
        say("%s %s: %s, stat %s, open %s", who, links[i], read_, stat_, result(fd));
        close(fd);
    }
    texts(who, p);
}

// A process that waits: in the caller's domain; in one more (what); after an execve.
static pid_t waits(uint64_t what, int exec) {
    char c;
    pid_t p = fork();
    if (!p) {
        if (what)
            enter(what);
        if (exec) {
            char number[12];
            sprintf(number, "%d", ready[1]);
            execve("/proc/self/exe", (char *[]){"waits", "waits", number, NULL}, environ);
            _exit(99);
        }
        MUST(write(ready[1], "r", 1));
        pause();
    }
    MUST(read(ready[0], &c, 1));
    return p;
}

static void gone(pid_t p) { kill(p, SIGKILL), waitpid(p, NULL, 0); }

static pid_t sibling;
static void *lower(void *arg) {
    enter(MAKE_FIFO);
    look("a thread further below, at the domain above", sibling);
    return arg;
}

static void *beside(void *arg) { // two threads: the monitor finds an entry before it opens it
    texts("itself, with threads", getpid());
    return arg;
}

static void all(void) {
    pid_t outside = waits(0, 0), top = getpid();
    reap("in a domain", CHILD({
             enter(MAKE_FIFO);
             pid_t inside = waits(0, 0), anew = waits(0, 1), below = waits(MAKE_FIFO, 1);
             look("itself", getpid()), look("outside", outside), look("the one that made it", top);
             look("inside", inside), look("inside, executed", anew), look("below", below);
             reap("below", CHILD(enter(MAKE_FIFO); look("from below, above", inside);
                                 look("from below, beside", below)));
             sibling = anew;
             join(thread(lower, NULL));
             look("the other thread, inside", anew);
             gone(inside), gone(anew), gone(below);
         }));
    pid_t other = waits(MAKE_FIFO, 0);
    look("from outside", other);
    reap("in another domain", CHILD(enter(MAKE_FIFO); look("another domain", other)));
    reap("no right to read", CHILD({
             pid_t inside;
             enter(READ_FILE | READ_DIR), inside = waits(0, 0);
             texts("itself", getpid()), texts("inside", inside);
             join(thread(beside, NULL));
             gone(inside);
         }));
    gone(other), gone(outside);
}

int main(int argc, char **argv) {
    char *v[] = {"x", NULL};
    if (argc == 3) {
        MUST(write(atoi(argv[2]), "r", 1));
        pause();
    }
    if (syscall(CREATE, NULL, 0, 1) < 1 ||
        (syscall(SYS_execveat, AT_FDCWD, "/bin/true", v, v, 0x10000) == -1 && errno == EINVAL)) {
        say("no landlock, or a kernel that cannot be asked what may be executed");
        return 0;
    }
    MUST(close(0)), MUST(open("/dev/null", O_RDONLY)), MUST(pipe(ready));
    if (argc == 2) {
        all();
        return wrong;
    }
    reap("root",
         CHILD({ // CAP_PERFMON and CAP_SYS_ADMIN read memory maps whatever a domain says (may_access_mm())
             struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
             struct __user_cap_data_struct cap[2] = {{0}};
             cap[0].effective = cap[0].permitted = 1 << CAP_DAC_OVERRIDE | 1 << CAP_KILL;
             MUST(syscall(SYS_capset, &head, cap)), all();
         }));
    reap("user", CHILD({
             int self = MUST(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
             MUST(setgroups(0, NULL)), MUST(setresgid(1000, 1000, 1000)), MUST(setresuid(1000, 1000, 1000));
             fexecve(self, (char *[]){"user", "user", NULL}, environ);
         }));
    return wrong;
}
