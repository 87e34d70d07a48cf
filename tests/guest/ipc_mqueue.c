// POSIX message queues: priorities, attributes, time-outs, notification by signal: mq_overview(7).
#include "guest.h"
#include <mqueue.h>
static volatile int hits;
static void h(int s, siginfo_t *i, void *c) { hits = i->si_code == SI_MESGQ ? i->si_value.sival_int : -1; }
int main(int argc, char **argv) {
    char name[40], b[100] = "";
    sprintf(name, "/krun-corpus-%d", getpid());
    struct mq_attr a = {.mq_maxmsg = 3, .mq_msgsize = 50};
    mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_NONBLOCK, 0600, &a);
    if (q < 0)
        return say("%s", errno_name(errno)), 0;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 66};
    on_info(SIGUSR1, h, 0), TRY(mq_notify(q, &e)), TRY(mq_notify(q, &e)), mq_send(q, "low", 4, 1),
        say("notified %d", hits);
    mq_send(q, "high", 5, 9), mq_send(q, "mid", 4, 5), TRY(mq_send(q, "x", 2, 1)),
        TRY(mq_receive(q, b, 10, NULL));
    unsigned p;
    for (int i = 0; i < 3; i++)
        mq_receive(q, b, 100, &p), say("%s %u", b, p);
    TRY(mq_receive(q, b, 100, &p)), mq_getattr(q, &a),
        say("%ld %ld %ld", a.mq_maxmsg, a.mq_msgsize, a.mq_curmsgs);
    a.mq_flags = 0, mq_setattr(q, &a, NULL);
    struct timespec t = {1, 0};
    TRY(mq_timedreceive(q, b, 100, &p, &t)), TRY(mq_unlink(name)), TRY(mq_unlink(name)), TRY(mq_close(q)),
        TRY(mq_close(q));
    return 0;
}
