// Record locks, open-file-description locks, flock, between processes: fcntl(2), flock(2).
#include "guest.h"
#include <sys/file.h>
int main(int argc, char **argv) {
    int fd = file_with("f", "0123456789"), p[2], q[2];
    char c;
    struct flock l = {.l_type = F_WRLCK, .l_start = 2, .l_len = 3};
    MUST(pipe(p)), MUST(pipe(q));
    TRY(fcntl(fd, F_SETLK, &l));
    reap("child", CHILD({
             TRY(fcntl(fd, F_SETLK, &l));
             struct flock g = {.l_type = F_RDLCK};
             fcntl(fd, F_GETLK, &g);
             say("type %d, start %ld, length %ld, parent %d", g.l_type == F_WRLCK, (long)g.l_start,
                 (long)g.l_len, g.l_pid == getppid());
             l.l_start = 5;
             TRY(fcntl(fd, F_SETLK, &l));
         }));
    pid_t w = CHILD({
        write(p[1], "", 1);
        int locked = fcntl(fd, F_SETLKW, &l); // blocks until the parent unlocks
        read(q[0], &c, 1);
        say("waiter: F_SETLKW %d", locked);
    });
    read(p[0], &c, 1), pause_ms(20);
    l.l_type = F_UNLCK;
    TRY(fcntl(fd, F_SETLK, &l));
    write(q[1], "", 1);
    reap("waiter", w);
    int o = open("f", O_RDWR);
    l = (struct flock){.l_type = F_WRLCK};
    TRY(fcntl(fd, F_OFD_SETLK, &l));
    TRY(fcntl(o, F_OFD_SETLK, &l));
    l.l_type = F_UNLCK, fcntl(fd, F_OFD_SETLK, &l), l.l_type = F_WRLCK;
    TRY(fcntl(o, F_OFD_SETLK, &l));
    TRY(flock(fd, LOCK_SH));
    TRY(flock(o, LOCK_EX | LOCK_NB));
    TRY(flock(fd, LOCK_UN));
    TRY(flock(o, LOCK_EX | LOCK_NB));
    l.l_type = 77;
    TRY(fcntl(fd, F_SETLK, &l));
    TRY(flock(fd, 0));
    return 0;
}
