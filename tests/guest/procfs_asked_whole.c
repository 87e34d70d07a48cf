// A blocking transfer is whole, also while another process looks into /proc/PID of the one that waits.
#include "guest.h"
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SIZE (2L << 20)
#define PART 32768

static char bytes[SIZE], part[PART];

static long transfer(int kind, int fd) {
    struct iovec v[2] = {{bytes, SIZE / 2}, {bytes + SIZE / 2, SIZE / 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    int file;
    switch (kind) {
    case 0:
        return write(fd, bytes, SIZE);
    case 1:
        return writev(fd, v, 2);
    case 2:
        return sendmsg(fd, &m, 0);
    case 3:
        return recv(fd, bytes, SIZE, MSG_WAITALL);
    default:
        file = file_with("f", "");
        return ftruncate(file, SIZE) ? -1 : sendfile(fd, file, NULL, SIZE);
    }
}

static void one(int kind, const char *name) {
    int s[2];
    long sum = 0, n;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    fflush(stdout);
    pid_t worker = CHILD({
        close(s[1]);
        for (long i = 0; i < SIZE; i++)
            bytes[i] = (char)(i % 251);
        long done = transfer(kind, s[0]), right = 1;
        for (long i = 0; i < SIZE && kind == 3; i++)
            right &= bytes[i] == (char)(i / PART);
        say("%s: %s%s", name, done == SIZE ? "whole" : "a part", right ? "" : ", other bytes");
    });
    close(s[0]);
    pid_t looker = CHILD({
        char path[64], link[256];
        snprintf(path, sizeof path, "/proc/%d/exe", worker);
        for (;;) {
            readlink(path, link, sizeof link);
            pause_ms(1);
        }
    });
    pause_ms(20);
    if (kind == 3)
        for (long i = 0; i < SIZE; i += PART, pause_ms(1)) {
            memset(part, (int)(i / PART), PART);
            MUST(write(s[1], part, PART));
        }
    else
        for (long at = 0; (n = read(s[1], part, PART)) > 0; at += n, pause_ms(1))
            for (long i = 0; i < n; i++)
                sum += kind < 3 && part[i] != (char)((at + i) % 251);
    reap("worker", worker);
    kill(looker, SIGKILL), waitpid(looker, NULL, 0);
    close(s[1]);
    say("%s: %ld wrong bytes", name, sum);
}

int main(int argc, char **argv) {
    one(0, "write"), one(1, "writev"), one(2, "sendmsg"), one(3, "MSG_WAITALL"), one(4, "sendfile");
    return 0;
}
