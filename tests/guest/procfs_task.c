// /proc/self/task lists the threads, no more; entries of dead threads go: proc(5).
#include "guest.h"
#include <dirent.h>
static pthread_barrier_t b;
static void *run(void *a) {
    pthread_barrier_wait(&b), pthread_barrier_wait(&b);
    return NULL;
}
static int count(void) {
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
int main(int argc, char **argv) {
    pthread_t t[5];
    int threads = 0;
    pthread_barrier_init(&b, NULL, 6);
    say("at first %d", count());
    for (int i = 0; i < 5; i++)
        t[i] = thread(run, NULL);
    pthread_barrier_wait(&b);
    say("with five more %d", count());
    sscanf(strstr(MUSTP(slurp("/proc/self/status")), "Threads:"), "Threads: %d", &threads),
        say("status says %d", threads);
    char *s = strrchr(MUSTP(slurp("/proc/self/stat")), ')');
    sscanf(s, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d", &threads),
        say("stat says %d", threads);
    pthread_barrier_wait(&b);
    for (int i = 0; i < 5; i++)
        join(t[i]);
    for (int i = 0; i < 1000 && count() > 1; i++)
        pause_ms(1);
    say("at last %d", count());
    return 0;
}
