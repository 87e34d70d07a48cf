// A signal between the check and a blocking call must not be lost; hangs if one is: sigsuspend(2).
// krun: timeout=60
#include "guest.h"
static volatile sig_atomic_t flag;
static sigjmp_buf out;
static volatile int armed;
static void set(int s) { flag = 1; }
static void jump(int s) {
    flag = 1;
    if (armed)
        siglongjmp(out, 1);
}
int main(int argc, char **argv) {
    // 1. sigsuspend with the signal sent at varying moments around it: hangs if one is lost
    int n = scaled(1500), go[2], back[2], p[2];
    char c;
    MUST(pipe(go)), MUST(pipe(back)), MUST(pipe(p));
    pid_t me = getpid(), sender = CHILD({
                             close(go[1]);
                             while (read(go[0], &c, 1) == 1) {
                                 for (volatile int i = 0; i < (c & 255) * 200; i++)
                                     ;
                                 kill(me, SIGUSR1);
                             }
                         });
    close(go[0]);
    sigset_t block, none;
    sigemptyset(&none), sigemptyset(&block), sigaddset(&block, SIGUSR1);
    on(SIGUSR1, set, 0);
    sigprocmask(SIG_BLOCK, &block, NULL);
    for (int i = 0; i < n; i++) {
        flag = 0, c = i * 7, write(go[1], &c, 1);
        while (!flag)
            sigsuspend(&none);
    }
    say("sigsuspend done");
    // 2. ppoll with the mask
    for (int i = 0; i < n; i++) {
        flag = 0, c = i * 5, write(go[1], &c, 1);
        while (!flag)
            ppoll(NULL, 0, NULL, &none);
    }
    say("ppoll done");
    // 3. a handler that leaves by siglongjmp: every signal must break into the blocking read
    on(SIGUSR1, jump, 0), sigprocmask(SIG_UNBLOCK, &block, NULL);
    for (volatile int i = 0; i < n; i++) {
        flag = 0;
        if (!sigsetjmp(out, 1)) {
            armed = 1;
            c = i * 3, write(go[1], &c, 1);
            read(p[0], &c, 1); // for ever, if the signal is lost
        }
        armed = 0;
    }
    say("read done");
    close(go[1]), reap("sender", sender);
    return 0;
}
