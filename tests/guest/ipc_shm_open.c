// POSIX shared memory and named semaphores: shm_overview(7), sem_overview(7).
// krun: static
#include "guest.h"
#include <semaphore.h>
int main(int argc, char **argv) {
    char name[40];
    sprintf(name, "/krun-corpus-%d", getpid());
    int fd = MUST(shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600));
    MUST(ftruncate(fd, 2 * PAGE));
    char *p = MUSTP(mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    EXPECT(s != SEM_FAILED);
    pid_t c = CHILD({
        int g = shm_open(name, O_RDWR, 0);
        char *q = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, g, PAGE);
        strcpy(q, "second page"), sem_post(s);
    });
    sem_wait(s), say("%s", p + PAGE), reap("child", c);
    TRY(shm_unlink(name)), TRY(shm_unlink(name)), TRY(sem_unlink(name)), TRY(shm_open("/no/such", O_RDWR, 0));
    return wrong;
}
