// Threads have names, seen in /proc/self/task/TID/comm; children inherit them: prctl(2).
#include "guest.h"
static pthread_barrier_t b;
static pid_t tid;
static void *run(void *a) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, 16);
    say("inherited %s", name);
    pthread_setname_np(pthread_self(), "worker bee");
    tid = syscall(SYS_gettid);
    pthread_barrier_wait(&b), pthread_barrier_wait(&b);
    return NULL;
}
int main(int argc, char **argv) {
    pthread_barrier_init(&b, NULL, 2);
    pthread_setname_np(pthread_self(), "queen");
    pthread_t t = thread(run, NULL);
    pthread_barrier_wait(&b);
    char path[60], *s;
    sprintf(path, "/proc/self/task/%d/comm", tid);
    s = slurp(path), say("%s", s ? s : errno_name(errno));
    sprintf(path, "/proc/%d/comm", getpid());
    s = slurp(path), say("%s", s ? s : errno_name(errno));
    say("too long: %s", errno_name(pthread_setname_np(pthread_self(), "a name of more than sixteen")));
    pthread_barrier_wait(&b);
    join(t);
    return 0;
}
