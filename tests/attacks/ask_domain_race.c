// A process in a landlock domain and bystanders without one ask the same process at the same time. The monitor that answers
// judges a question by the domain of another one, which a signal has put in its place (view/answer.c).
#include "attack.h"
#define CREATE 444
#define RESTRICT 446

static char path[64];

static void enter(void) {
    uint64_t what = 1 << 10; // LANDLOCK_ACCESS_FS_MAKE_FIFO: says nothing about /proc
    int set = (int)syscall(CREATE, &what, sizeof what, 0);
    if (set < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(RESTRICT, set, 0) < 0)
        attack_broken("landlock");
    close(set);
}

static void ask(int inside) {
    char text[256];
    if (inside)
        enter();
    for (long tries = 1; !attack_over(); tries++)
        if (readlink(path, text, sizeof text) > 0 && inside)
            attack_won("in the domain: %s, after %ld tries", path, tries);
    _exit(0);
}

int main(void) {
    int status, won = 0;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)getpid());
    attack_over();
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child < 0)
            attack_broken("fork");
        if (child == 0)
            ask(i < 2);
    }
    for (int i = 0; i < 5; i++) {
        while (wait(&status) < 0 && errno == EINTR)
            ;
        won |= attack_child_won(status);
    }
    if (won)
        _exit(ATTACK_WON);
    attack_lost();
}
