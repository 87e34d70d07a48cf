// A robust mutex whose owner (thread, process) dies gives EOWNERDEAD: pthread_mutexattr_setrobust(3).
// krun: static musl
#include "guest.h"
static pthread_mutex_t *m;
static void *die(void *a) {
    pthread_mutex_lock(m);
    return NULL;
}
int main(int argc, char **argv) {
    m = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED),
        pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(m, &a);
    join(thread(die, NULL));
    say("thread died: %s", errno_name(pthread_mutex_lock(m)));
    say("consistent %d, unlock %d", pthread_mutex_consistent(m), pthread_mutex_unlock(m));
    int p[2];
    char c;
    MUST(pipe(p));
    pid_t child = CHILD({
        pthread_mutex_lock(m);
        write(p[1], "", 1);
        pause_ms(30); // the parent waits in the lock meanwhile
        kill(getpid(), SIGKILL);
    });
    read(p[0], &c, 1);
    say("process died: %s", errno_name(pthread_mutex_lock(m)));
    pthread_mutex_unlock(m); // without consistent: unusable
    say("then: %s", errno_name(pthread_mutex_lock(m)));
    reap("child", child);
    return 0;
}
