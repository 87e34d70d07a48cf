// SA_RESTART restarts read, wait, accept, flock, sem and futex waits; without it they give EINTR: signal(7).
// krun: static timeout=40
#include "guest.h"
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
static volatile int hits;
static int pipes[2], listener, lockfd = 100;
static pid_t child;
static uint32_t word;
static void h(int s) { hits++; }
static long do_read(void) {
    char c;
    return read(pipes[0], &c, 1);
}
static long do_wait(void) { return waitpid(child, NULL, 0) > 0 ? 1 : -1; }
static long do_accept(void) { return accept(listener, NULL, NULL) > 0 ? 1 : -1; }
static long do_flock(void) { return flock(lockfd, LOCK_EX); }
static long do_futex(void) { return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); }
/* Two that wait at once are one: the first must have been delivered, on a busy machine, too. */
static void interrupt(pthread_t t, int n) {
    pause_ms(25), pthread_kill(t, SIGUSR1);
    for (int i = 0; i < 5000 && hits < n; i++)
        pause_ms(1);
}
static void *helper(void *a) {
    struct sockaddr_un u = {.sun_family = AF_UNIX, .sun_path = "s"};
    pthread_t main_thread = *(pthread_t *)a;
    interrupt(main_thread, 1), interrupt(main_thread, 2), pause_ms(25);
    write(pipes[1], "", 1), kill(child, SIGTERM), flock(lockfd + 1, LOCK_UN);
    connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&u, sizeof(u));
    for (int i = 0; i < 20; i++)
        pause_ms(2), syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}
int main(int argc, char **argv) {
    static const struct {
        const char *name;
        long (*call)(void);
    } all[] = {{"read", do_read},
               {"waitpid", do_wait},
               {"accept", do_accept},
               {"flock", do_flock},
               {"futex", do_futex}};
    struct sockaddr_un u = {.sun_family = AF_UNIX, .sun_path = "s"};
    pthread_t me = pthread_self();
    for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART)
        for (size_t i = 0; i < COUNT(all); i++) {
            sigset_t m;
            MUST(pipe(pipes));
            child = CHILD(pause());
            unlink("s"), listener = socket(AF_UNIX, SOCK_STREAM, 0), bind(listener, (void *)&u, sizeof(u)),
                         listen(listener, 5);
            int l0 = open("lock", O_RDWR | O_CREAT, 0600), l1 = open("lock", O_RDWR);
            dup2(l0, lockfd), dup2(l1, lockfd + 1), close(l0), close(l1);
            flock(lockfd + 1, LOCK_EX);
            hits = 0;
            on(SIGUSR1, h, flags);
            pthread_t t = thread(helper, &me);
            errno = 0;
            long r = all[i].call();
            say("%s %s: %ld %s", all[i].name, flags ? "SA_RESTART" : "plain", r,
                r < 0 ? errno_name(errno) : "");
            join(t);
            EXPECT(hits == 2);
            flock(lockfd, LOCK_UN), kill(child, SIGKILL);
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
            sigemptyset(&m), close(listener);
        }
    return wrong;
}
