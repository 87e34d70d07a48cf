// System calls and first touches of pages in every mixture, on several threads, with signals in between:
// every call gets its own result, no page its neighbour's contents.
#include "guest.h"

#define THREADS 3
#define AREA (64 * PAGE)
static volatile int ticks;

static void on_tick(int s) {
    (void)s;
    ticks++;
}

static void *work(void *arg) {
    long me = (long)arg, bad = 0;
    pid_t tid = (pid_t)syscall(SYS_gettid), pid = getpid();
    int null = open("/dev/null", O_WRONLY);
    for (int round = 0; round < scaled(10); round++) {
        int touches = round % 5, calls = round % 7 + 1; /* 0 to 4 pages, then 1 to 7 calls */
        char *p = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        size_t at = 0;
        while (at < AREA) {
            for (int i = 0; i < touches && at < AREA; i++, at += PAGE)
                p[at] = (char)(me + (long)(at / PAGE));
            for (int i = 0; i < calls; i++) {
                bad += syscall(SYS_gettid) != tid;
                bad += syscall(SYS_getpid) != pid;
                bad += write(null, p, (size_t)(i + 1)) != i + 1;
                bad += syscall(SYS_close, -1 - i) != -1 || errno != EBADF;
            }
            if (!touches)
                at += PAGE;
        }
        for (at = 0; touches && at < AREA; at += PAGE)
            bad += p[at] != (char)(me + (long)(at / PAGE));
        munmap(p, AREA);
    }
    close(null);
    return (void *)bad;
}

int main(void) {
    struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval it = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &it, NULL);
    pthread_t t[THREADS];
    long bad = 0;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(t[i], &result);
        bad += (long)result;
    }
    while (!ticks) // the whole may take less than one of the timer's periods
        pause_ms(1);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    EXPECT(bad == 0);
    return wrong;
}
