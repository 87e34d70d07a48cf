// System V semaphores: operations, waiting, undo at exit, time-outs, errors: semop(2).
#include "guest.h"
#include <sys/sem.h>
static void until_somebody_waits(int id) {
    while (semctl(id, 0, GETNCNT) == 0)
        pause_ms(1);
}
int main(int argc, char **argv) {
    int id = MUST(semget(IPC_PRIVATE, 3, 0600));
    unsigned short v[3] = {1, 2, 3};
    TRY(semctl(id, 0, SETALL, v)), SHOW(semctl(id, 2, GETVAL));
    struct sembuf down = {0, -1, SEM_UNDO}, up = {0, 1, 0}, no = {0, -1, IPC_NOWAIT}, zero = {0, 0, 0};
    reap("child with undo", CHILD(semop(id, &down, 1); say("in the child %d", semctl(id, 0, GETVAL))));
    SHOW(semctl(id, 0, GETVAL)), TRY(semop(id, &no, 1)), TRY(semop(id, &no, 1));
    pid_t c = CHILD(TRY(semop(id, &down, 1)));
    until_somebody_waits(id), semop(id, &up, 1), reap("waiter", c);
    struct timespec t = {0, 20000000};
    semctl(id, 0, SETVAL, 0), TRY(semtimedop(id, &down, 1, &t)), TRY(semop(id, &zero, 1)),
        TRY(semop(id, NULL, 1)), TRY(semop(id, &up, 0)), up.sem_num = 9, TRY(semop(id, &up, 1));
    c = CHILD(TRY(semop(id, &down, 1)));
    until_somebody_waits(id);
    int removed = semctl(id, 0, IPC_RMID); // said when the child has said its part
    reap("removed", c), say("IPC_RMID %d", removed);
    return 0;
}
