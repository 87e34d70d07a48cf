// No attack: processes, threads, memory and programs as any payload has them, for the oracle to be silent
// about.
#include "attack.h"
#include <pthread.h>
#include <spawn.h>

static void *thread(void *argument) {
    (void)argument;
    for (int i = 0; i < 50; i++) {
        size_t size = 4096UL << (i % 10);
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            attack_broken("mmap");
        memset(p, i, size);
        mprotect(p, size, PROT_READ | PROT_EXEC);
        munmap(p, size);
    }
    return NULL;
}

static void again(void *name) {
    execl(name, name, "child", NULL);
    attack_broken("execl");
}

int main(int argc, char **argv) {
    if (argc > 1)
        return 0;
    extern char **environ;
    do {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, thread, NULL) != 0)
                attack_broken("pthread_create");
        if (attack_child(again, argv[0]) != 0)
            attack_broken("a child");
        pid_t pid;
        if (posix_spawn(&pid, argv[0], NULL, NULL, (char *[]){argv[0], "child", NULL}, environ) != 0)
            attack_broken("posix_spawn");
        waitpid(pid, NULL, 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    } while (!attack_over());
    attack_lost();
}
