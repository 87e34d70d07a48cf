// A process made with CLONE_VM in a user namespace of its own has all capabilities there. Those are not for the container's
// other processes, whatever else its maker asks of clone(2): one that is not dumpable stays closed.
#include "attack.h"

static const unsigned long asked[] = {0, CLONE_CHILD_SETTID, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
                                      CLONE_CHILD_SETTID | CLONE_VFORK,
                                      CLONE_CHILD_SETTID | CLONE_VFORK | CLONE_FILES};
static pid_t victim;
static volatile int word;
static char stack[1 << 16] __attribute__((aligned(16)));

// Whether the calling process sees what only its owner may see.
static int look(void) {
    static const char *const links[] = {"cwd", "exe", "root", "fd/0"}, *const texts[] = {"maps", "auxv",
                                                                                         "environ"};
    char path[64], text[64];
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", victim, links[i]);
        if (readlink(path, text, sizeof text) >= 0)
            return 1;
    }
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", victim, texts[i]);
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) > 0)
            return 1;
        close(fd);
    }
    return 0;
}

static int elsewhere(void *unused) {
    (void)unused;
    _exit(look() ? ATTACK_WON : 0);
}

int main(void) {
    int made = 0;
    victim = fork();
    if (victim == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        for (;;)
            pause();
    }
    usleep(100000);
    if (look())
        attack_broken("it may be looked at: then this shows nothing");
    for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
        int status = 0;
        pid_t pid = clone(elsewhere, stack + sizeof stack,
                          (int)(CLONE_VM | CLONE_NEWUSER | asked[i] | SIGCHLD), NULL, NULL, NULL, &word);
        if (pid < 0)
            continue;
        made++;
        waitpid(pid, &status, 0);
        if (attack_child_won(status))
            attack_won("a process that is not dumpable, from a namespace made with flags 0x%lx", asked[i]);
    }
    kill(victim, SIGKILL);
    if (!made)
        attack_broken("no process in a user namespace");
    attack_lost();
}
