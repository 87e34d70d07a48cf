// The numbers that getuid(2) and its relatives give are the kernel's, at once: while threads set their own, a child that
// shares the memory sets its own, a parent writes the maps of a user namespace, a process enters it.
#include "attack.h"
#include <pthread.h>

static struct shared {
    int told, written, joined; // atomic
    int checked;
} * s;

static void check(const char *what, long nr, long wanted) {
    long got = syscall(nr);
    if (got != wanted)
        attack_won("%s: call %ld gives %ld instead of %ld", what, nr, got, wanted);
}

// Only root may: others set what they have.
static void *sets(void *seed) {
    unsigned x = (unsigned)(uintptr_t)seed;
    int root = syscall(SYS_geteuid) == 0;
    long tid = syscall(SYS_gettid), pid = getpid();
    for (int i = 0; i < 300; i++) {
        x = x * 1103515245 + 12345;
        long id = root ? (long)(x >> 8 & 0xfff) : (long)syscall(SYS_getuid);
        if (syscall(SYS_setresgid, id, id + root, -1) == 0) {
            check("setresgid", SYS_getgid, id);
            check("setresgid", SYS_getegid, id + root);
        }
        if (syscall(SYS_setresuid, id, id + root, root ? 0 : -1) == 0) {
            check("setresuid", SYS_getuid, id);
            check("setresuid", SYS_geteuid, id + root);
            if (root && syscall(SYS_setresuid, -1, 0, -1) == 0)
                check("back", SYS_geteuid, 0);
        }
        check("a thread", SYS_gettid, tid);
        check("a thread", SYS_getpid, pid);
    }
    return NULL;
}

static void threads(void *unused) {
    pthread_t t[3];
    (void)unused;
    for (uintptr_t i = 0; i < 3; i++)
        if (pthread_create(&t[i], NULL, sets, (void *)(i + 1)))
            attack_broken("pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}

static void sharing(void *unused) {
    long uid = syscall(SYS_getuid), pid = getpid(), other = uid ? uid : 7;
    (void)unused;
    for (int i = 0; i < 20; i++) {
        pid_t c = vfork();
        if (c == 0) {
            if (syscall(SYS_setresuid, other, other, other) == 0 && syscall(SYS_getuid) != other)
                _exit(ATTACK_WON);
            _exit(syscall(SYS_getpid) == pid ? ATTACK_WON : 0);
        }
        int status = 0;
        waitpid(c, &status, 0);
        if (attack_child_won(status))
            attack_won("a child that shares the memory has its parent's numbers");
        check("the parent", SYS_getuid, uid);
        check("the parent", SYS_getpid, pid);
    }
}

static int put(pid_t pid, const char *file, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_WRONLY);
    int r = fd >= 0 && write(fd, text, strlen(text)) > 0;
    close(fd);
    return r;
}

// Asks until a call has begun behind the writing of the map.
static void asks_mapped(const char *what) {
    for (int late = 0; late < 50;) {
        int written = __atomic_load_n(&s->written, __ATOMIC_SEQ_CST);
        long r = syscall(SYS_getuid);
        if (written && r != 5)
            attack_won("%s: getuid gives %ld after the map was written", what, r);
        late += written;
    }
}

static void inside(void *unused) {
    (void)unused;
    syscall(SYS_getuid);
    if (unshare(CLONE_NEWUSER) < 0)
        attack_broken("unshare");
    __atomic_store_n(&s->told, 1, __ATOMIC_SEQ_CST);
    asks_mapped("unshared");
    while (!__atomic_load_n(&s->joined, __ATOMIC_SEQ_CST))
        usleep(1000);
}

static void namespaces(void *unused) {
    char map[32];
    (void)unused;
    memset(s, 0, sizeof *s);
    snprintf(map, sizeof map, "5 %d 1\n", (int)getuid());
    pid_t c = fork();
    if (c == 0) {
        inside(NULL);
        _exit(0);
    }
    while (!__atomic_load_n(&s->told, __ATOMIC_SEQ_CST))
        usleep(100);
    pid_t d = fork();
    if (d == 0) { // enters it before the map is written
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/ns/user", (int)c);
        int fd = open(path, O_RDONLY);
        if (fd < 0 || setns(fd, CLONE_NEWUSER) < 0)
            _exit(0);
        asks_mapped("entered");
        _exit(0);
    }
    usleep(2000);
    if (put(c, "uid_map", map)) {
        __atomic_store_n(&s->written, 1, __ATOMIC_SEQ_CST);
        s->checked = 1;
    } else
        kill(c, SIGKILL), kill(d, SIGKILL);
    int status = 0, other = 0;
    waitpid(d, &other, 0);
    __atomic_store_n(&s->joined, 1, __ATOMIC_SEQ_CST);
    waitpid(c, &status, 0);
    if (attack_child_won(status) || attack_child_won(other))
        _exit(ATTACK_WON);
}

int main(void) {
    static void (*const tries[])(void *) = {threads, sharing, namespaces};
    int checked = 0;
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        attack_broken("mmap");
    for (unsigned i = 0; i < 3 || !attack_over(); i++) {
        if (attack_child_won(attack_child(tries[i % 3], NULL)))
            _exit(ATTACK_WON);
        checked |= s->checked;
    }
    if (!checked)
        attack_broken("no map could be written");
    attack_lost();
}
