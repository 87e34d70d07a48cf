// Several threads wait on one epoll with one-shot events; each message is taken once: epoll(7).
// krun: timeout=40
#include "guest.h"
#include <sys/epoll.h>
static int e, pipes[8][2];
static long taken;
static void *run(void *a) {
    struct epoll_event v;
    char c;
    while (epoll_wait(e, &v, 1, -1) == 1 && v.data.u32 < 8) {
        int i = v.data.u32;
        if (read(pipes[i][0], &c, 1) == 1)
            __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
        epoll_ctl(e, EPOLL_CTL_MOD, pipes[i][0], &(struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u32 = i}});
    }
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t t[4];
    int stop[2], n = scaled(800);
    e = MUST(epoll_create1(0)), MUST(pipe(stop));
    for (int i = 0; i < 8; i++)
        MUST(pipe(pipes[i])), epoll_ctl(e, EPOLL_CTL_ADD, pipes[i][0],
                                        &(struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u32 = i}});
    for (int i = 0; i < 4; i++)
        t[i] = thread(run, NULL);
    for (int i = 0; i < n; i++)
        write(pipes[i % 8][1], "x", 1);
    while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < n)
        sched_yield();
    epoll_ctl(e, EPOLL_CTL_ADD, stop[0], &(struct epoll_event){EPOLLIN, {.u32 = 9}}), write(stop[1], "x", 1);
    for (int i = 0; i < 4; i++)
        join(t[i]);
    EXPECT(taken == n);
    return wrong;
}
