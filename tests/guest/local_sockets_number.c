// A connection is accepted while close_range(2) of another thread waits, and is closed by it: its number is
// the next file's, here a pipe's, and nothing of the socket is left: accept(2). krun: static musl timeout=60
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { PROCESSES = 12, TRIES = 12, OWN_CALLS = 40 };
static int listener, other[2], number;
static struct sockaddr_in address;
static volatile int turn, closed;

static int next_turn(int seen) {
    while (turn == seen)
        usleep(50);
    return turn;
}
static void *idle(void *unused) { return usleep(3000), unused; }
// Its call names a number that is free from then on: who makes a descriptor for a thread waits for such a
// call a little.
static void *blocked(void *unused) {
    char b;
    (void)!read(other[0], &b, 1);
    return unused;
}
static void *maker(void *unused) {
    for (int seen = 0; (seen = next_turn(seen)) > 0; join(thread(idle, NULL)))
        usleep(500);
    return unused;
}
static void *closer(void *unused) {
    for (int seen = 0; (seen = next_turn(seen)) > 0; closed = seen) {
        usleep(700 + (unsigned)rand() % 600);
        wrong |= syscall(SYS_close_range, number, number, 0) != 0;
    }
    return unused;
}
static void own_calls(void) {
    for (int i = 0; i < OWN_CALLS; i++)
        syscall(SYS_getuid);
}
static void client(int go) {
    char b;
    while (read(go, &b, 1) == 1) {
        usleep(1000 + (unsigned)rand() % 800);
        int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(fd, (void *)&address, sizeof address));
        usleep(8000);
        close(fd);
    }
}
// Whether the pipe that has the number of a closed connection is read as a pipe.
static int one_try(int go) {
    own_calls();
    turn++;
    MUST(write(go, "g", 1));
    int fd = accept(listener, NULL, NULL), p[2], good = 1;
    while (closed != turn)
        ;
    if (fd != number || fcntl(fd, F_GETFD) >= 0)
        return close(fd), usleep(3000), 1;
    MUST(pipe(p));
    if (p[0] == number) {
        struct pollfd f = {p[0], POLLIN, 0};
        char b;
        MUST(write(p[1], "z", 1));
        own_calls();
        good = poll(&f, 1, 1000) == 1 && read(p[0], &b, 1) == 1;
    }
    close(p[0]), close(p[1]), usleep(3000);
    return good;
}
static int server(int go) {
    int bad = 0, fd = (MUST(write(go, "g", 1)), MUST(accept(listener, NULL, NULL)));
    close(fd);
    number = MUST(dup(0));
    MUST(pipe(other));
    thread(blocked, NULL), usleep(20000);
    close(other[0]), close(number);
    thread(maker, NULL), thread(closer, NULL);
    for (int i = 0; i < TRIES; i++)
        bad += !one_try(go);
    return bad;
}

int main(void) {
    socklen_t n = sizeof address;
    int bad = 0;
    listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (void *)&address, n)), MUST(listen(listener, 16)),
        MUST(getsockname(listener, (void *)&address, &n));
    for (int i = 0; i < PROCESSES; i++) {
        int go[2], status = 0;
        MUST(pipe(go));
        pid_t c = fork();
        if (c == 0)
            close(go[1]), srand((unsigned)getpid()), client(go[0]), _exit(0);
        pid_t s = fork();
        if (s == 0)
            srand((unsigned)getpid()), _exit(server(go[1]));
        close(go[0]), close(go[1]);
        waitpid(s, &status, 0), bad += status != 0;
        waitpid(c, &status, 0);
    }
    say("processes in which a pipe was taken for a socket: %d", bad);
    return wrong;
}
