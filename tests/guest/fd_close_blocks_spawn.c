// krun: timeout=30
// While one thread is in a close(2) that waits, a child of posix_spawn puts a descriptor at the number.
#include "guest.h"
#include <netinet/in.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static int waits;
static volatile int over;
static void *closer(void *arg) {
    close(waits);
    over = 1;
    return arg;
}
static void *nothing(void *arg) { return arg; }

int main(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    static char bytes[1 << 16];
    int server = socket(AF_INET, SOCK_STREAM, 0);
    int little = 4096, much = 1 << 20;
    EXPECT(setsockopt(server, SOL_SOCKET, SO_RCVBUF, &little, sizeof little) == 0);
    EXPECT(bind(server, (void *)&a, sizeof a) == 0 && listen(server, 1) == 0);
    EXPECT(getsockname(server, (void *)&a, &len) == 0);
    waits = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect(waits, (void *)&a, sizeof a) == 0);
    struct linger l = {1, 3};
    EXPECT(setsockopt(waits, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
    EXPECT(setsockopt(waits, SOL_SOCKET, SO_SNDBUF, &much, sizeof much) == 0);
    for (int full = 0; full < 3; nanosleep(&(struct timespec){0, 50000000}, NULL))
        full = send(waits, bytes, sizeof bytes, MSG_DONTWAIT) > 0 ? 0 : full + 1;
    pthread_t t, u;
    EXPECT(pthread_create(&t, NULL, closer, NULL) == 0);
    while (fcntl(waits, F_GETFD) >= 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    EXPECT(pthread_create(&u, NULL, nothing, NULL) == 0 && pthread_join(u, NULL) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 1, waits);
    char word[64];
    snprintf(word, sizeof word, "true >&%d", waits);
    pid_t pid;
    int status = -1;
    EXPECT(posix_spawn(&pid, "/bin/sh", &actions, NULL, (char *[]){"sh", "-c", word, NULL}, NULL) == 0);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(!over);
    pthread_join(t, NULL);
    return wrong;
}
