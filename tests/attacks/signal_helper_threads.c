// Signals to the monitor's own short-lived threads, whose numbers go up one by one: SIGBUS and SIGSEGV are never blocked there.
// They are the process's like any other thread's; nothing ends or stays blocked by them.
#include "attack.h"
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/xattr.h>

static volatile pid_t newest;
static volatile long counted, served;
static volatile int over;

static void handler(int sig) {
    (void)sig;
    counted++;
}

static void *calls(void *argument) {
    int watch = inotify_init1(IN_NONBLOCK), n = 0;
    while (!over) {
        for (int i = 0; i < 16; i++) {
            if (inotify_add_watch(watch, "/tmp", IN_OPEN) < 0 && errno != EINTR)
                attack_won("inotify_add_watch(2): %s", strerror(errno));
            getxattr("/tmp", "user.x", &n, sizeof n);
            served++;
        }
        pid_t pid = vfork(); // where the numbers are now
        if (pid == 0)
            _exit(0);
        newest = pid;
        waitpid(pid, NULL, 0);
    }
    return argument;
}

static void one(void *argument) {
    static const int signals[] = {SIGBUS, SIGSEGV, SIGUSR1, SIGCONT, SIGBUS, SIGSEGV};
    struct sigaction action = {.sa_handler = argument ? handler : SIG_IGN, .sa_flags = SA_RESTART};
    for (int i = 0; i < 3; i++)
        sigaction(signals[i], &action, NULL);
    pthread_t t;
    if (pthread_create(&t, NULL, calls, NULL) != 0)
        attack_broken("pthread_create");
    double end = attack_now() + 1;
    for (unsigned i = 0; attack_now() < end; i++)
        syscall(SYS_tgkill, getpid(), newest + 1 + (int)(i % 32), signals[i / 32 % 6]);
    over = 1;
    alarm(10); // a thread that never comes back
    pthread_join(t, NULL);
    _exit(served > 0 ? 0 : 3);
}

int main(void) {
    for (unsigned i = 0; !attack_over(); i++) {
        int status = attack_child(one, i & 1 ? "" : NULL);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            attack_won("status %#x", status);
    }
    attack_lost();
}
