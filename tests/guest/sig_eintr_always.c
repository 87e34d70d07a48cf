// poll, select, epoll_wait, nanosleep, sigsuspend, pause, msgrcv give EINTR even with SA_RESTART: signal(7).
#include "guest.h"
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
static volatile int hits;
static void h(int s) { hits++; }
static void *poke(void *t) {
    for (int i = 0; i < 400 && !hits; i++)
        pause_ms(15), pthread_kill(*(pthread_t *)t, SIGUSR1), pause_ms(3);
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t me = pthread_self();
    int p[2], q = MUST(msgget(IPC_PRIVATE, 0600)), e = epoll_create1(0);
    struct epoll_event ev;
    struct timespec t = {100, 0}, left = {0, 0};
    struct timeval tv = {100, 0};
    struct {
        long type;
        char text[8];
    } m;
    struct pollfd f;
    fd_set set;
    sigset_t none;
    sigemptyset(&none);
    MUST(pipe(p));
    on(SIGUSR1, h, SA_RESTART);
#define INTERRUPTED(call)                                                                                    \
    do {                                                                                                     \
        hits = 0, f = (struct pollfd){p[0], POLLIN, 0};                                                      \
        FD_ZERO(&set);                                                                                       \
        FD_SET(p[0], &set);                                                                                  \
        pthread_t x = thread(poke, &me);                                                                     \
        TRY(call);                                                                                           \
        join(x);                                                                                             \
    } while (0)
    INTERRUPTED(poll(&f, 1, 100000));
    INTERRUPTED(select(p[0] + 1, &set, NULL, NULL, &tv));
    INTERRUPTED(ppoll(&f, 1, &t, &none));
    INTERRUPTED(epoll_wait(e, &ev, 1, 100000));
    INTERRUPTED(nanosleep(&t, &left));
    EXPECT(left.tv_sec >= 90 && left.tv_sec < 100);
    INTERRUPTED(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) ? (errno = EINTR, -1) : 0);
    INTERRUPTED(sigsuspend(&none));
    INTERRUPTED(pause());
    INTERRUPTED(sigtimedwait(&none, NULL, &t));
    INTERRUPTED(msgrcv(q, &m, 8, 0, 0));
    INTERRUPTED(usleep(90000000));
    msgctl(q, IPC_RMID, NULL);
    return wrong;
}
