// unshare(2): a pid namespace for the children, together with a user namespace, too.
// krun: host
#include "guest.h"

static void *nothing(void *arg) { return arg; }
static void first_child(const char *what) {
    pid_t p = CHILD({
        say("%s: the first child's own number: %d", what, (int)getpid());
        pid_t q = CHILD(EXPECT(getpid() > 1); EXPECT(getppid() == 1));
        reap("its child", q);
        pthread_t t = thread(nothing, NULL);
        join(t);
        execl("/bin/true", "true", NULL);
        _exit(1);
    });
    reap("first child", p);
}

int main(void) {
    pid_t p = CHILD({
        TRY(unshare(CLONE_NEWUSER | CLONE_NEWPID));
        first_child("both at once");
        EXPECT(syscall(SYS_unshare, 0) == 0);
        TRY(fork() < 0 ? -1 : 0); // its first process has ended: no more
    });
    reap("both at once", p);
    p = CHILD({
        TRY(unshare(CLONE_NEWUSER | CLONE_NEWNS));
        TRY(unshare(CLONE_NEWPID));
        first_child("one after the other");
    });
    reap("one after the other", p);
    return wrong;
}
