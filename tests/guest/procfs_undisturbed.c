// A process that others look at goes on as if they had not: calls that wait, with and without a timeout,
// signals during them, long writes: signal(7), proc(5). krun's monitors interrupt each other for it
// (view/ask.h).
#include "guest.h"
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <linux/futex.h>

static int looks; // how often the last watched process was seen

// Runs `body` in a child, which the parent looks at all the time until it ends.
static int watched(const char *what, void (*body)(void)) {
    char path[60], link[300];
    pid_t c = CHILD(body());
    int status = 0;
    looks = 0;
    sprintf(path, "/proc/%d/cwd", c);
    while (waitpid(c, &status, WNOHANG) == 0) {
        looks += readlink(path, link, sizeof(link)) > 0;
        pause_ms(7);
    }
    say_status(what, status);
    return status;
}

static long long began;
static void start(void) { began = now_ns(CLOCK_MONOTONIC); }
// Not shorter than asked, and not as long as a timeout would be that began anew at each look: for ever.
static int took(long ms) {
    long long t = (now_ns(CLOCK_MONOTONIC) - began) / 1000000;
    return t >= ms - 1 && t < ms + 8000;
}
#define MS 400
static struct timespec ts = {0, MS * 1000000};

static void sleeps(void) {
    start(), EXPECT(nanosleep(&ts, NULL) == 0 && took(MS));
    start(), EXPECT(clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL) == 0 && took(MS));
    struct timespec both = ts, until;
    start(), EXPECT(nanosleep(&both, &both) == 0 && took(MS));
    both = ts, start(), EXPECT(clock_nanosleep(CLOCK_REALTIME, 0, &both, &both) == 0 && took(MS));
    start(), EXPECT(sleep(1) == 0 && took(1000));
    clock_gettime(CLOCK_MONOTONIC, &until), until.tv_sec += 1;
    start(), EXPECT(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0 && took(1000));
}
static void polls(void) {
    int p[2];
    fd_set set;
    struct epoll_event ev = {.events = EPOLLIN};
    MUST(pipe(p));
    struct pollfd f = {.fd = p[0], .events = POLLIN};
    start(), EXPECT(poll(&f, 1, MS) == 0 && took(MS));
    start(), EXPECT(ppoll(&f, 1, &ts, NULL) == 0 && took(MS));
    struct timeval tv = {0, MS * 1000};
    FD_ZERO(&set);
    FD_SET(p[0], &set);
    start(), EXPECT(select(p[0] + 1, &set, NULL, NULL, &tv) == 0 && took(MS));
    FD_SET(p[0], &set);
    start(), EXPECT(pselect(p[0] + 1, &set, NULL, NULL, &ts, NULL) == 0 && took(MS));
    int e = (int)MUST(epoll_create1(0));
    MUST(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev));
    start(), EXPECT(epoll_wait(e, &ev, 1, MS) == 0 && took(MS));
    start(), EXPECT(epoll_pwait(e, &ev, 1, MS, NULL) == 0 && took(MS));
    pid_t w = CHILD(pause_ms(MS), MUST(write(p[1], "x", 1)));
    start(), EXPECT(epoll_wait(e, &ev, 1, -1) == 1);
    EXPECT(poll(&f, 1, -1) == 1);
    waitpid(w, NULL, 0);
}
static void waits(void) {
    int word = 7;
    sigset_t usr;
    sigemptyset(&usr), sigaddset(&usr, SIGUSR2), sigprocmask(SIG_BLOCK, &usr, NULL);
    start(), EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT, 7, &ts, NULL, 0) == -1 && errno == ETIMEDOUT &&
                    took(MS));
    start(), EXPECT(sigtimedwait(&usr, NULL, &ts) == -1 && errno == EAGAIN && took(MS));
    int sem = (int)MUST(semget(IPC_PRIVATE, 1, 0600)), q = (int)MUST(msgget(IPC_PRIVATE, 0600));
    struct sembuf op = {0, -1, 0};
    start(), EXPECT(semtimedop(sem, &op, 1, &ts) == -1 && errno == EAGAIN && took(MS));
    struct {
        long type;
        char text[8];
    } m = {1, "hello"};
    pid_t w =
        CHILD(pause_ms(MS), MUST(msgsnd(q, &m, 6, 0)), pause_ms(MS), op.sem_op = 1, MUST(semop(sem, &op, 1)));
    memset(m.text, 0, 8), start(), EXPECT(msgrcv(q, &m, 8, 0, 0) == 6 && !strcmp(m.text, "hello"));
    start(), EXPECT(semop(sem, &op, 1) == 0);
    EXPECT(waitpid(w, NULL, 0) == w);
    semctl(sem, 0, IPC_RMID), msgctl(q, IPC_RMID, NULL);
    w = CHILD(pause_ms(MS));
    EXPECT(waitpid(w, NULL, 0) == w);
}

static volatile int handled;
static void handler(int sig) { handled += sig == SIGUSR1; }

// Each signal that comes ends the wait, whatever came between.
static void ended(void) {
    int p[2];
    char c;
    MUST(pipe(p));
    on(SIGUSR1, handler, 0);
    pid_t me = getpid(), w = CHILD(for (int i = 0; i < 40; i++) pause_ms(20), kill(me, SIGUSR1));
    int paused = 0;
    for (int i = 0; i < 20; i++) // at least half of the signals are still to come
        paused += i % 2 ? pause() == -1 && errno == EINTR : read(p[0], &c, 1) == -1 && errno == EINTR;
    EXPECT(paused == 20 && handled >= 20);
    EXPECT(waitpid(w, NULL, 0) == w || errno == EINTR);
    kill(w, SIGKILL);
}
static void restarted(void) {
    int p[2];
    char c = 0;
    MUST(pipe(p));
    on(SIGUSR1, handler, SA_RESTART);
    pid_t me = getpid(),
          w = CHILD(for (int i = 0; i < 20; i++) pause_ms(20), kill(me, SIGUSR1); MUST(write(p[1], "x", 1)));
    // Fewer than were sent: signals that come while one waits are one signal (signal(7)), on a machine with
    // much to do.
    EXPECT(read(p[0], &c, 1) == 1 && c == 'x' && handled > 5 && handled <= 20);
    EXPECT(waitpid(w, NULL, 0) == w);
}

static void writes(void) { // one write, larger than the pipe; the reader is slow
    int p[2], size = 1 << 20;
    char *data = malloc(size), part[65536];
    memset(data, 'x', size), MUST(pipe(p));
    pid_t w = CHILD(close(p[1]); long sum = 0;
                    for (ssize_t n; (n = read(p[0], part, sizeof(part))) > 0; sum += n) pause_ms(10);
                    EXPECT(sum == size));
    EXPECT(write(p[1], data, size) == size), close(p[1]), EXPECT(waitpid(w, NULL, 0) == w);
    int s[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    w = CHILD(close(s[1]); long sum = 0;
              for (ssize_t n; (n = read(s[0], part, sizeof(part))) > 0; sum += n) pause_ms(10);
              EXPECT(sum == size));
    EXPECT(send(s[1], data, size, 0) == size), close(s[1]), EXPECT(waitpid(w, NULL, 0) == w);
}

static void computes(void) { // no system call at all
    volatile double x = 1;
    long n = 0;
    for (long long end = now_ns(CLOCK_MONOTONIC) + 500000000; now_ns(CLOCK_MONOTONIC) < end; n++)
        for (int i = 0; i < 100000; i++)
            x = x * 1.0000001;
    EXPECT(n > 0 && x > 1);
}

static void *reader(void *arg) {
    char path[60], link[300];
    sprintf(path, "/proc/%d/cwd", getppid());
    for (int i = 0; i < 30; i++)
        *(int *)arg += readlink(path, link, sizeof(link)) > 0;
    return NULL;
}
static void each_other(void) { // the parent looks at us, several threads of us at the parent
    int seen[3] = {0};
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        t[i] = thread(reader, &seen[i]);
    for (int i = 0; i < 3; i++)
        join(t[i]);
    EXPECT(seen[0] + seen[1] + seen[2] == 90);
}

int main(void) {
    watched("sleeps", sleeps), EXPECT(looks > 10);
    watched("polls", polls), EXPECT(looks > 10);
    watched("waits", waits), EXPECT(looks > 10);
    watched("ended", ended), EXPECT(looks > 10);
    watched("restarted", restarted), EXPECT(looks > 5);
    watched("writes", writes), EXPECT(looks > 5);
    watched("computes", computes), EXPECT(looks > 5);
    watched("each other", each_other);
    return wrong;
}
