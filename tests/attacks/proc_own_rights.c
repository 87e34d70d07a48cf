// Entries of /proc/PID that the kernel opens for their owner only (mode 0400), by whoever is not the owner: a server that has
// changed its effective or file-system ids for a client's path, an undumpable process, a tracer without the right to pass file
// modes. The text is the monitor's, but the kernel's rules decide who may open the file.
#include "attack.h"
#include <linux/capability.h>
#include <pthread.h>
#include <sys/fsuid.h>

static int opens(int pid, const char *entry) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, entry);
    int fd = open(path, O_RDONLY);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int lists(int pid) {
    char path[64], names[1024];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    long n = fd < 0 ? -1 : syscall(SYS_getdents64, fd, names, sizeof names);
    if (fd >= 0)
        close(fd);
    return n > 0;
}

static void try_own(const char *who) {
    static const char *const entries[] = {"environ", "auxv", "syscall"};
    for (int i = 0; i < 3; i++)
        if (opens(getpid(), entries[i]))
            attack_won("%s opens its own %s", who, entries[i]);
}

static void *idle(void *unused) {
    for (;;)
        pause();
    return unused;
}

// Keeps these capabilities of the lower 32.
static void keep(uint32_t kept) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct cap[2];
    if (syscall(SYS_capget, &head, cap) < 0)
        attack_broken("capget");
    cap[0].effective &= kept;
    cap[0].permitted &= kept;
    cap[1].effective = cap[1].permitted = 0;
    cap[0].inheritable = cap[1].inheritable = 0;
    if (syscall(SYS_capset, &head, cap) < 0)
        attack_broken("capset");
}

static pid_t sleeper(uid_t uid) {
    pid_t pid = fork();
    if (pid == 0) {
        keep(uid ? ~0u : 0);
        if (uid && setresuid(uid, uid, uid) < 0)
            attack_broken("setresuid");
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        for (;;)
            pause();
    }
    usleep(100000);
    return pid;
}

static void threads_of(void (*fn)(void), int many) {
    pthread_t thread;
    if (many)
        pthread_create(&thread, NULL, idle, NULL);
    fn();
}

static void undumpable(void) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    try_own("an undumpable process");
}

static void effective(void) {
    if (setegid(1000) < 0 || seteuid(1000) < 0)
        attack_broken("seteuid");
    try_own("a process with another effective id");
}

static void file_system(void) {
    setfsuid(1000);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    try_own("a process with another file-system id");
}

// The target has no capability more, and equal ids but for the asker's file-system id.
static void asks_for_another(void) {
    char path[64], text[64];
    pid_t target = sleeper(0);
    if (setresuid(0, 0, 1000) < 0)
        attack_broken("setresuid");
    keep(0);
    setfsuid(1000);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)target);
    int reads = readlink(path, text, sizeof text) > 0, listed = lists(target),
        sees = opens(target, "environ");
    kill(target, SIGKILL);
    if (reads || listed || sees)
        attack_won("another file-system id passes for the effective one: exe %d, fd %d, environ %d", reads,
                   listed, sees);
}

static void traces(void) {
    char path[64], text[64];
    pid_t target = sleeper(1000);
    keep(1 << CAP_SYS_PTRACE | 1 << CAP_KILL);
    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)target);
    int sees = opens(target, "environ") || opens(target, "auxv"), listed = lists(target),
        reads = readlink(path, text, sizeof text) > 0;
    if (opens(target, "maps") == 0)
        attack_broken("maps, which the kernel lets a tracer read");
    keep(0);
    if (sees || listed || reads)
        attack_won("CAP_SYS_PTRACE passes file modes: environ or auxv %d, fd %d, fd/0 %d", sees, listed,
                   reads);
}

static void in_child(void (*fn)(void), int many) {
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        threads_of(fn, many);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (attack_child_won(status))
        _exit(ATTACK_WON);
}

int main(int argc, char **argv) {
    int tracer = argc > 1 && strcmp(argv[1], "trace") == 0;
    for (int many = 0; many < 2; many++) {
        if (tracer) {
            in_child(traces, many);
            continue;
        }
        if (getuid())
            in_child(undumpable, many);
        if (getuid() == 0) {
            in_child(effective, many);
            in_child(file_system, many);
            in_child(asks_for_another, many);
        }
    }
    attack_lost();
}
