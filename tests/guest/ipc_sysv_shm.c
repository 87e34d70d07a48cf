// System V shared memory: create, attach twice, between processes, removal: shmget(2), shmat(2).
// krun: static
#include "guest.h"
#include <sys/shm.h>
int main(int argc, char **argv) {
    int id = MUST(shmget(IPC_PRIVATE, 5 * PAGE, IPC_CREAT | 0600));
    char *p = MUSTP(shmat(id, NULL, 0)), *q = MUSTP(shmat(id, NULL, SHM_RDONLY)), *hole;
    EXPECT(p != q && p[0] == 0);
    reap("child", CHILD(strcpy(p, "from the child")));
    say("%s %s", p, q);
    CATCH(q[1] = 1);
    say_fault("read-only", q);
    struct shmid_ds d;
    MUST(shmctl(id, IPC_STAT, &d)), say("attached %ld, size %ld", (long)d.shm_nattch, (long)d.shm_segsz);
    TRY(shmdt(q)), TRY(shmdt(q));
    CATCH(*(volatile char *)q);
    say_fault("detached", q);
    hole = pages(16), munmap(hole, 16 * PAGE);
    EXPECT(shmat(id, hole + 100, SHM_RND) == hole && !strcmp(hole, p));
    TRY(shmat(id, hole + 1, 0)), TRY(shmat(id, hole, SHM_REMAP)), TRY(shmctl(id, IPC_RMID, NULL)),
        TRY(shmget(IPC_PRIVATE, 0, IPC_CREAT)), TRY(shmat(99999999, NULL, 0));
    say("still %s", p), shmdt(p), shmdt(hole), TRY(shmctl(id, IPC_STAT, &d));
    return wrong;
}
