// A process in a landlock domain and bystanders without one ask the same process at the same time. The monitor that answers
// judges a question by the domain of another one, which a signal has put in its place (view/answer.c).
#include "attack.h"

static char path[64];

static void ask(int inside) {
    char text[256];
    if (inside)
        attack_enter_domain();
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
