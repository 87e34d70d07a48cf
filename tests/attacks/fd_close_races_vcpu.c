// A vCPU's descriptor is made at the lowest free number. Threads close and look at that number all the time, by calls that may have
// begun before it was given: natively each of them is EBADF, because nobody opens a file. A thread that cannot be made, or an
// anonymous inode at the number, is a win.
#include "crowd.h"

static volatile int seen, closed;

static void *closer(void *argument) {
    while (!crowd_over)
        if (close(3) == 0)
            closed++;
    return argument;
}

static void *looker(void *argument) {
    struct stat st;
    while (!crowd_over)
        if (fstat(3, &st) == 0 && !(st.st_mode & S_IFMT))
            seen++;
    return argument;
}

static void one(void *argument) {
    (void)argument;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    pthread_t maker, other[2];
    if (pthread_create(&other[0], NULL, closer, NULL) != 0 ||
        pthread_create(&other[1], NULL, looker, NULL) != 0 ||
        pthread_create(&maker, NULL, crowd_maker, NULL) != 0)
        attack_broken("pthread_create");
    while (!crowd_over)
        usleep(1000);
    for (int i = 0; i < 2; i++)
        pthread_join(other[i], NULL);
    if (getenv("ATTACK_VERBOSE"))
        dprintf(1, "made %d, closed %d, seen %d\n", crowd_made, closed, seen);
    _exit(seen ? 1 : crowd_made < CROWD ? 2 : 0);
}

int main(void) {
    do {
        int status = attack_child(one, NULL);
        if (!WIFEXITED(status))
            attack_won("a process with threads died of signal %d", WTERMSIG(status));
        if (WEXITSTATUS(status) == 1)
            attack_won("an anonymous inode at a number that nobody opened");
        if (WEXITSTATUS(status) == 2)
            attack_won("a thread could not be made");
    } while (!attack_over());
    attack_lost();
}
