// fcntl(2): flags, owner, signals by F_SETSIG, leases; unknown commands.
#include "guest.h"
static volatile int band, hits;
static void h(int s, siginfo_t *i, void *c) { hits++, band = i->si_band & POLLIN; }
int main(int argc, char **argv) {
    int p[2];
    MUST(pipe(p));
    on_info(SIGRTMIN, h, 0);
    TRY(fcntl(p[0], F_SETOWN, getpid()));
    EXPECT(fcntl(p[0], F_GETOWN) == getpid());
    TRY(fcntl(p[0], F_SETSIG, SIGRTMIN));
    SHOW(fcntl(p[0], F_GETSIG) - SIGRTMIN);
    TRY(fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    write(p[1], "x", 1);
    for (int i = 0; i < 1000 && !hits; i++)
        pause_ms(1);
    say("hits %d, readable %d", hits, band != 0);
    TRY(fcntl(p[0], 9999));
    TRY(fcntl(99, F_GETFD));
    int fd = file_with("f", "x");
    TRY(fcntl(fd, F_SETFL, O_NOATIME));
    SHOW(fcntl(fd, F_GETLEASE));
    return wrong;
}
