// A file without the right to execute, put under the number of the program that execve has just judged.
#include "attack.h"
#include <pthread.h>
#include <sys/sendfile.h>

static int forbidden;

static void *swap(void *unused) {
    (void)unused;
    for (;;)
        for (int n = 3; n < 12; n++)
            if (n != forbidden)
                dup2(forbidden, n), dup2(forbidden, n);
    return NULL;
}

static void one(void *how) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, swap, NULL))
        attack_broken("pthread_create");
    usleep((useconds_t)(rand() % 300));
    int path = open("/attack", O_PATH);
    char *argv[] = {"attack", "begun", NULL};
    if ((intptr_t)how)
        syscall(SYS_execveat, path, "", argv, environ, AT_EMPTY_PATH);
    else
        execv("/attack", argv);
}

int main(int argc, char **argv) {
    attack_check_native();
    struct stat st;
    if (argc > 1) {
        if (stat("/proc/self/exe", &st) == 0 && !(st.st_mode & 0111))
            attack_won("a file of mode %o is executed", st.st_mode & 07777);
        return 0;
    }
    (void)argv;
    int own = open("/attack", O_RDONLY), fd = (int)syscall(SYS_memfd_create, "forbidden", 0);
    if (own < 0 || fd < 0 || fstat(own, &st) || sendfile(fd, own, NULL, (size_t)st.st_size) != st.st_size)
        attack_broken("memfd");
    close(own);
    fchmod(fd, 0600);
    forbidden = dup2(fd, 30);
    close(fd);
    for (intptr_t i = 0; !attack_over(); i++) {
        srand((unsigned)i);
        if (attack_child_won(attack_child(one, (void *)(i & 1))))
            attack_won("execve started what it must not, in round %d", (int)i);
    }
    attack_lost();
}
