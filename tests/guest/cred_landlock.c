// landlock from inside: what a domain forbids, what it does not, over fork, exec, scripts and threads:
// landlock(7).
#include "guest.h"
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#define CREATE 444
#define ADD 445
#define RESTRICT 446
enum {
    EXECUTE = 1,
    WRITE = 2,
    READ = 4,
    READ_DIR = 8,
    REMOVE_DIR = 16,
    REMOVE = 32,
    MAKE_DIR = 128,
    MAKE_REG = 256,
    REFER = 1 << 13,
    TRUNCATE = 1 << 14
};
#define ALL (EXECUTE | WRITE | READ | READ_DIR | REMOVE_DIR | REMOVE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE)
struct path_rule {
    uint64_t allowed;
    int parent;
} __attribute__((packed));
struct ruleset {
    uint64_t fs, net, scoped;
};
struct port_rule {
    uint64_t allowed, port;
};
static int ruleset(uint64_t fs, uint64_t net) {
    struct ruleset r = {fs, net, 0};
    return (int)syscall(CREATE, &r, net ? 16 : 8, 0);
}
static long allow(int set, const char *path, uint64_t what) {
    struct path_rule p = {what, open(path, O_PATH | O_CLOEXEC)};
    long r = syscall(ADD, set, 1, &p, 0);
    int e = errno;
    close(p.parent);
    errno = e;
    return r;
}
static void enter(int set) {
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(syscall(RESTRICT, set, 0));
    close(set);
}
// Programs and libraries, to be read and executed; what a test is about comes on top.
static int base(void) {
    static const char *const places[] = {"/usr", "/lib", "/lib64", "/bin", "/etc"};
    int set = MUST(ruleset(ALL, 0));
    for (size_t i = 0; i < COUNT(places); i++)
        allow(set, places[i], EXECUTE | READ | READ_DIR);
    MUST(allow(set, "/dev/null", READ | WRITE));
    return set;
}
static void opens(const char *path, int flags) {
    int fd = open(path, flags, 0644);
    say("open %s %o: %s", path, flags, fd < 0 ? errno_name(errno) : "ok");
    if (fd >= 0)
        close(fd);
}
static char self[PATH_MAX];
static void files(void) {
    int set = base();
    MUST(allow(set, "in", ALL));
    enter(set);
    opens("in/f", O_RDWR), opens("out/f", O_RDONLY), opens("out/f", O_WRONLY), opens("out/f", O_PATH);
    opens("in/new", O_RDWR | O_CREAT), opens("out/new", O_RDWR | O_CREAT), opens("out/f", O_RDONLY | O_CREAT);
    opens("in/link", O_RDONLY), opens("/proc/self/cwd/out/f", O_RDONLY),
        opens("/proc/self/cwd/in/f", O_RDONLY);
    opens("out", O_RDONLY | O_DIRECTORY), opens("in", O_RDONLY | O_DIRECTORY), opens("/dev/null", O_RDWR),
        opens("/dev/zero", O_RDONLY);
    TRY(truncate("in/f", 3)), TRY(truncate("out/f", 3)), TRY(mkdir("out/d", 0755)), TRY(mkdir("in/d", 0755));
    TRY(unlink("out/f")), TRY(rename("in/f", "out/g")), TRY(rename("in/f", "in/g")),
        TRY(rename("in/g", "in/f")), TRY(rmdir("in/d"));
    TRY(chmod("out/f", 0600));
    struct stat st;
    TRY(stat("out/f", &st));
    opens("/proc/self/maps", O_RDONLY), opens("/proc/self/status", O_RDONLY),
        opens("/proc/version", O_RDONLY), opens("/proc/self/exe", O_RDONLY);
    char link[PATH_MAX];
    TRY(readlink("/proc/self/exe", link, sizeof link));
}
static void proc(void) { // our own /proc goes on, if it is allowed
    int set = base();
    MUST(allow(set, "/proc", READ | READ_DIR));
    MUST(allow(set, self, READ));
    enter(set);
    opens("/proc/self/exe", O_RDONLY), opens("/proc/thread-self/status", O_RDONLY);
    char *maps = slurp("/proc/self/maps"), *name = strrchr(self, '/') + 1;
    say("maps name us: %d", maps && strstr(maps, name) != NULL);
    opens("out/f", O_RDONLY);
}
static void runs(const char *what, const char *path) {
    reap(what, CHILD({
             execl(path, path, "x", NULL);
             say("execl %s: %s", what, errno_name(errno));
         }));
}
static void execs(void) {
    int set = base();
    MUST(allow(set, self, EXECUTE | READ)), MUST(allow(set, "in", ALL)), MUST(allow(set, "reads", READ));
    enter(set);
    runs("allowed", self), runs("copy that may run", "in/copy"), runs("copy that may be read", "reads/copy"),
        runs("copy outside", "out/copy");
    runs("script that may run", "in/script"), runs("script that may be read", "reads/script"),
        runs("script with a forbidden interpreter", "in/bad");
    reap("by descriptor", CHILD({
             int fd = open("reads/copy", O_RDONLY);
             char *v[] = {"copy", "x", NULL};
             fexecve(fd, v, environ);
             say("fexecve: %s", errno_name(errno));
         }));
    pid_t p;
    if (!(p = vfork()))
        execl(self, self, "x", NULL), _exit(1);
    reap("vfork", p);
}
static void asks(void) { // the question alone, inside a domain
    char *v[] = {"x", NULL};
    int set = base();
    MUST(allow(set, "in", ALL)), MUST(allow(set, "reads", READ));
    enter(set);
#define ASK(path, flags) TRY(syscall(SYS_execveat, AT_FDCWD, path, v, environ, 0x10000 | (flags)))
    ASK("in/copy", 0), ASK("reads/copy", 0), ASK("out/copy", 0), ASK("in/script", 0), ASK("in/f", 0),
        ASK("in", 0), ASK("none", 0);
    ASK("in/link", AT_SYMLINK_NOFOLLOW), ASK("", 0), ASK("/bin/true", 0), ASK("/bin/true", 0x800000);
    int fd = open("in/copy", O_RDONLY);
    TRY(syscall(SYS_execveat, fd, "", v, environ, 0x10000 | AT_EMPTY_PATH));
}
static pthread_barrier_t b;
static void *bound(void *a) {
    int set = MUST(ruleset(READ, 0));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(syscall(RESTRICT, set, 0));
    say("the thread: "), opens("in/f", O_RDONLY);
    say("no_new_privs %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    pthread_barrier_wait(&b), pthread_barrier_wait(&b);
    reap("its child", CHILD(opens("in/f", O_RDONLY)));
    return NULL;
}
static void threads(void) {
    pthread_barrier_init(&b, NULL, 2);
    pthread_t t = thread(bound, NULL);
    pthread_barrier_wait(&b);
    say("the others: "), opens("in/f", O_RDONLY);
    say("no_new_privs %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    pthread_barrier_wait(&b);
    join(t);
}
static void layers(void) { // each one takes away
    for (int i = 0; i < 3; i++) {
        int set = base();
        if (i < 2)
            MUST(allow(set, "in", READ));
        enter(set);
        opens("in/f", O_RDONLY);
    }
    reap("exec under three", CHILD(execl("/bin/true", "true", NULL); say("%s", errno_name(errno))));
}
static void ports(void) {
    int set = ruleset(0, 1);
    if (set < 0) {
        say("no rules for ports");
        return;
    }
    struct port_rule p = {1, 23456};
    TRY(syscall(ADD, set, 2, &p, 0));
    enter(set);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    a.sin_port = htons(23457), TRY(bind(s, (void *)&a, sizeof a));
}
static void errors(void) {
    int set = base(), plain = open("in/f", O_RDONLY);
    struct path_rule p = {READ, 999};
    struct ruleset r = {1ULL << 60, 0, 0};
    TRY(syscall(CREATE, &r, 8, 0)), TRY(syscall(CREATE, &r, 4, 0)), TRY(syscall(CREATE, NULL, 8, 0)),
        TRY(syscall(CREATE, &r, 8, 99)), TRY(syscall(CREATE, (void *)16, 8, 0));
    TRY(syscall(ADD, set, 1, &p, 0)), TRY(allow(set, "in", 0)), TRY(allow(set, "in", 1ULL << 50)),
        TRY(allow(set, "in/f", READ_DIR));
    TRY(syscall(ADD, set, 99, &p, 0)), TRY(syscall(ADD, set, 1, &p, 5)),
        TRY(syscall(ADD, set, 1, (void *)16, 0)), TRY(allow(plain, "in", READ)), TRY(allow(999, "in", READ));
    reap("restrict", CHILD({
             MUST(setuid(1000));
             TRY(syscall(RESTRICT, set, 0)), MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
             TRY(syscall(RESTRICT, plain, 0)), TRY(syscall(RESTRICT, 999, 0)),
                 TRY(syscall(RESTRICT, set, 1U << 30)), TRY(syscall(RESTRICT, set, 0));
         }));
}
static void copy(const char *from, const char *to) {
    int in = MUST(open(from, O_RDONLY)), out = MUST(open(to, O_WRONLY | O_CREAT, 0755));
    char buf[65536];
    for (ssize_t n; (n = read(in, buf, sizeof buf)) > 0;)
        MUST(write(out, buf, n));
    close(in), close(out);
}
static void script(const char *path, const char *interpreter) {
    int fd = MUST(open(path, O_WRONLY | O_CREAT, 0755));
    dprintf(fd, "#!%s\n", interpreter);
    close(fd);
}
int main(int argc, char **argv) {
    if (argc > 1) {
        say("here %s", strrchr(argv[0], '/') ? "runs" : "RUNS");
        return 0;
    }
    char *v[] = {"x", NULL};
    if (syscall(CREATE, NULL, 0, 1) < 1 ||
        (syscall(SYS_execveat, AT_FDCWD, "/bin/true", v, v, 0x10000) == -1 && errno == EINVAL)) {
        say("no landlock, or a kernel that cannot be asked what may be executed");
        return 0;
    }
    MUST(readlink("/proc/self/exe", self, sizeof self - 1));
    umask(0);
    MUST(mkdir("in", 0777)), MUST(mkdir("out", 0777)), MUST(mkdir("reads", 0777));
    close(file_with("in/f", "text")), close(file_with("out/f", "text")), MUST(symlink("../out/f", "in/link"));
    copy(self, "in/copy"), copy(self, "reads/copy"), copy(self, "out/copy");
    char here[PATH_MAX], bad[PATH_MAX + 20];
    MUST(getcwd(here, sizeof here) ? 0 : -1);
    snprintf(bad, sizeof bad, "%s/reads/copy", here);
    script("in/script", "/bin/true"), script("reads/script", "/bin/true"), script("in/bad", bad);
    reap("files", CHILD(files())), reap("proc", CHILD(proc())), reap("execs", CHILD(execs())),
        reap("asks", CHILD(asks())), reap("threads", CHILD(threads()));
    reap("layers", CHILD(layers())), reap("ports", CHILD(ports())), reap("errors", CHILD(errors()));
    return wrong;
}
