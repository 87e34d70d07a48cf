// krun: timeout=60
// While one thread is in a close(2) that waits (SO_LINGER), a child of posix_spawn puts a descriptor at the
// number.
#include "guest.h"
#include <netinet/in.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define NEED(condition) ((condition) || EXPECT(condition))

static int waits;
static volatile int over;
static void *closer(void *arg) {
    close(waits);
    over = 1;
    return arg;
}
static void *nothing(void *arg) { return arg; }

// A connection whose peer reads nothing. Its close waits until the peer takes the rest, or resets.
static int connection(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    static char bytes[1 << 16];
    int server = socket(AF_INET, SOCK_STREAM, 0), much = 1 << 22;
    NEED(bind(server, (void *)&a, sizeof a) == 0 && listen(server, 1) == 0);
    NEED(getsockname(server, (void *)&a, &len) == 0);
    waits = socket(AF_INET, SOCK_STREAM, 0);
    NEED(connect(waits, (void *)&a, sizeof a) == 0);
    struct linger l = {1, 20};
    NEED(setsockopt(waits, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
    NEED(setsockopt(waits, SOL_SOCKET, SO_SNDBUF, &much, sizeof much) == 0);
    for (int full = 0; full < 3; nanosleep(&(struct timespec){0, 20000000}, NULL))
        full = send(waits, bytes, sizeof bytes, MSG_DONTWAIT) > 0 ? 0 : full + 1;
    return server;
}

// Whether the close was still waiting at the end.
static int once(void) {
    int server = connection(), status = -1;
    over = 0;
    pthread_t t, u;
    NEED(pthread_create(&t, NULL, closer, NULL) == 0);
    while (fcntl(waits, F_GETFD) >= 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    NEED(pthread_create(&u, NULL, nothing, NULL) == 0 && pthread_join(u, NULL) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 1, waits);
    char word[64];
    snprintf(word, sizeof word, "true >&%d", waits);
    pid_t pid;
    NEED((errno = posix_spawn(&pid, "/bin/sh", &actions, NULL, (char *[]){"sh", "-c", word, NULL}, NULL)) ==
         0);
    NEED(waitpid(pid, &status, 0) == pid && status == 0);
    posix_spawn_file_actions_destroy(&actions);
    int is = !over;
    close(server); // resets the connection, so the other close returns
    pthread_join(t, NULL);
    return is;
}

int main(void) {
    int good = 0;
    for (int i = 0; i < 20 && !good && !wrong; i++)
        good += once();
    EXPECT(good);
    return wrong;
}
