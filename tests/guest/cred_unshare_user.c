// unshare(CLONE_NEWUSER) works in a process of one thread, and everything goes on after it: registers,
// threads, children. With two it is EINVAL.
#include "guest.h"

static void *idle(void *fd) {
    char c;
    read(*(int *)fd, &c, 1);
    return NULL;
}

static void *one(void *p) { return p; }

int main(void) {
    int gate[2], status;
    pthread_t t;
    pipe(gate);
    pthread_create(&t, NULL, idle, &gate[0]);
    errno = 0;
    int r = unshare(CLONE_NEWUSER);
    say("with a second thread: %d %s", r, errno_name(errno));
    write(gate[1], "x", 1);
    pthread_join(t, NULL);
    pid_t pid = fork();
    if (!pid) {
        register double kept __asm__("xmm9") = 1.25;
        __asm__ volatile("" : "+x"(kept));
        r = unshare(CLONE_NEWUSER);
        __asm__ volatile("" : "+x"(kept));
        say("alone: %d, %s, uid %s", r, kept == 1.25 ? "register kept" : "register lost",
            getuid() == 65534 ? "overflow" : "other");
        pthread_create(&t, NULL, one, &t);
        void *result;
        pthread_join(t, &result);
        say("a thread afterwards: %d", result == &t);
        if (!(pid = fork()))
            _exit(5);
        waitpid(pid, &status, 0);
        say("a child afterwards: %x", status);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    say("status %x", status);
    return wrong;
}
