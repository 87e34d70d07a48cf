// pthread_once runs once however many threads ask; thread-specific errno stays apart: pthread_once(3).
#include "guest.h"
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int runs;
static void init(void) { pause_ms(10), runs++; }
static void *run(void *a) {
    pthread_once(&once, init);
    close(-1);
    return (void *)(long)(runs * 1000 + errno);
}
int main(int argc, char **argv) {
    pthread_t t[8];
    errno = 3;
    for (int i = 0; i < 8; i++)
        t[i] = thread(run, NULL);
    for (int i = 0; i < 8; i++)
        say("%ld", (long)join(t[i]) - EBADF);
    say("runs %d, errno here %d", runs, errno);
    return 0;
}
