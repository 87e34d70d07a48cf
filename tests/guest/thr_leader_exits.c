// The main thread ends by pthread_exit(3); the others go on, the last one's end ends the process.
// krun: static
#include "guest.h"
static void *run(void *a) {
    pause_ms(40);
    say("leader gone, pid unchanged %d", getpid() == (pid_t)(long)a);
    char *s = slurp("/proc/self/comm");
    say("comm readable %d", s != NULL);
    exit(13);
}
int main(int argc, char **argv) {
    reap("exit in a thread", CHILD({
             thread(run, (void *)(long)getpid());
             pthread_exit(NULL);
         }));
    reap("last thread", CHILD({ pthread_exit(NULL); }));
    return 0;
}
