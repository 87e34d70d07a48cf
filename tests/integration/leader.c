// The first thread ends by exit(2), the other one stays: the process's state letter is Z while the process runs.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *stay(void *unused) {
    pause();
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, stay, NULL);
    syscall(SYS_exit, 0);
}
