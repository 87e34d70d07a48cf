// unshare(2) of a pid namespace in one thread of two: the children of that thread only are born there.
// krun: host
#include "guest.h"

static int turn[2];

static void child_of(const char *who, int elsewhere) {
    pid_t p = CHILD({
        char self[32] = "";
        EXPECT((getpid() == 1) == elsewhere);
        if (!elsewhere) {
            EXPECT(readlink("/proc/self", self, sizeof self - 1) > 0);
            EXPECT(atoi(self) == getpid());
        }
        pid_t q = CHILD(EXPECT(getpid() > 1); EXPECT(elsewhere ? getppid() == 1 : getppid() > 1));
        reap("its child", q);
    });
    reap(who, p);
}

static void *other(void *arg) {
    char byte;
    EXPECT(read(turn[0], &byte, 1) == 1);
    child_of("a child of the other thread", 0);
    return arg;
}

int main(void) {
    EXPECT(pipe(turn) == 0);
    pthread_t t = thread(other, NULL);
    child_of("a child before", 0);
    TRY(unshare(CLONE_NEWPID));
    child_of("a child after", 1);
    MUST(write(turn[1], "x", 1)); // no word: the other thread prints from here on
    join(t);
    return wrong;
}
