// A transfer goes on while another thread's calls become patched sites: recv(2) with MSG_WAITALL, writev(2)
// krun: static
#include "guest.h"
#include <sys/socket.h>
#include <sys/uio.h>
static int ends[2], pipes[2];
static char large[1 << 20];
static void *receives(void *unused) {
    char b[2];
    say("recv %zd", recv(ends[0], b, 2, MSG_WAITALL));
    return unused;
}
static void *writes(void *unused) {
    struct iovec v[2] = {{large, 100000}, {large, sizeof large - 100000}};
    return (void *)writev(pipes[1], v, 2);
}
static void calls(void) {
    for (int i = 0; i < 8000; i++)
        getpid(), getuid(), geteuid(), getgid(), getegid();
}
int main(void) {
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    MUST(pipe(pipes));
    pthread_t t = thread(receives, NULL);
    pause_ms(50);
    write(ends[1], "a", 1);
    pause_ms(50);
    calls();
    write(ends[1], "b", 1);
    join(t);
    t = thread(writes, NULL);
    pause_ms(50);
    calls();
    long all = 0;
    for (ssize_t n; all < (long)sizeof large && (n = read(pipes[0], large, sizeof large)) > 0; all += n)
        ;
    void *written;
    pthread_join(t, &written);
    say("read %ld, written %ld", all, (long)written);
    return wrong;
}
