// Cancellation of threads blocked in read, nanosleep, a condition, accept: handlers run: pthread_cancel(3).
// krun: static musl
#include "guest.h"
#include <sys/socket.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int pipes[2], pair[2];
static void cleanup(void *name) { say("cleanup of %s", (char *)name); }
static void unlock(void *x) {
    say("mutex held %d", pthread_mutex_trylock(&m) == EBUSY), pthread_mutex_unlock(&m);
}
static void *in_read(void *a) {
    char x;
    pthread_cleanup_push(cleanup, "read");
    read(pipes[0], &x, 1);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *in_sleep(void *a) {
    pthread_cleanup_push(cleanup, "sleep");
    pause_ms(100000);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *in_cond(void *a) {
    pthread_mutex_lock(&m);
    pthread_cleanup_push(unlock, NULL);
    pthread_cond_wait(&c, &m);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *in_recv(void *a) {
    char x;
    pthread_cleanup_push(cleanup, "recv");
    recv(pair[0], &x, 1, 0);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *in_loop(void *a) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (;;)
        ;
}
static void *disabled(void *a) {
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pause_ms(40);
    say("survived while disabled");
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    pthread_testcancel();
    say("not reached");
    return NULL;
}
int main(int argc, char **argv) {
    thread_main all[] = {in_read, in_sleep, in_cond, in_recv, in_loop, disabled};
    MUST(pipe(pipes)), MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    for (size_t i = 0; i < COUNT(all); i++) {
        pthread_t t = thread(all[i], NULL);
        pause_ms(15);
        pthread_cancel(t);
        say("%zu cancelled %d", i, join(t) == PTHREAD_CANCELED);
    }
    say("mutex free %d", pthread_mutex_trylock(&m) == 0);
    return 0;
}
