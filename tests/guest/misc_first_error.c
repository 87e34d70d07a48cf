// Calls with two things wrong: which one the kernel names, before it looks at the other: futex_waitv, mmap,
// socket options, execveat, arch_prctl(2).
#include "guest.h"
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static char text[64];
static void *const bad = (void *)16;

static void waits(void) {
    TRY(syscall(449, NULL, 1, 0, NULL, 0)), TRY(syscall(449, NULL, 1, 0, bad, 1)),
        TRY(syscall(449, bad, 1, 0, NULL, 0));
    TRY(syscall(449, NULL, 0, 0, NULL, 0)), TRY(syscall(449, bad, 129, 0, NULL, 0)),
        TRY(syscall(449, bad, 1, 1, NULL, 0));
    TRY(syscall(449, text, 1, 0, bad, 1)), TRY(syscall(449, NULL, 1, 0, text, 99));
}

static void maps(int file) {
    const int fds[] = {file, 999, -1};
    for (int i = 0; i < 3; i++) {
        int fd = fds[i];
        say("file %d", i);
        TRY(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0));
        TRY(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 1));
        TRY(mmap(NULL, 4096, PROT_READ, 0, fd, 0));
        TRY(mmap(NULL, -1UL, PROT_READ, MAP_PRIVATE, fd, 0));
        TRY(mmap((void *)1, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0));
        TRY(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_HUGETLB, fd, 0));
    }
}

static void options(const char *what, int fd) {
    static const int levels[] = {SOL_SOCKET, 9999, IPPROTO_TCP, 276 /* RDS */, -1};
    say("%s", what);
    for (int i = 0; i < 5; i++) {
        socklen_t n = sizeof text, wrong_length = -1;
        say("level %d", levels[i]);
        TRY(getsockopt(fd, levels[i], 999, text, &n)), TRY(getsockopt(fd, levels[i], 999, bad, &n));
        TRY(getsockopt(fd, levels[i], 999, text, bad)),
            TRY(getsockopt(fd, levels[i], 999, text, &wrong_length));
        TRY(setsockopt(fd, levels[i], 999, text, 4)), TRY(setsockopt(fd, levels[i], 999, bad, 4));
        TRY(setsockopt(fd, levels[i], 999, text, -1));
    }
}

int main(int argc, char **argv) {
    int file = MUST(open("/proc/self/exe", O_RDONLY)), pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    waits(), maps(file);
    options("tcp", MUST(socket(AF_INET, SOCK_STREAM, 0))),
        options("udp", MUST(socket(AF_INET6, SOCK_DGRAM, 0)));
    options("unix", pair[0]), options("file", file), options("closed", 999);
    TRY(syscall(SYS_execveat, -1, "", NULL, NULL, AT_EMPTY_PATH));
    TRY(syscall(SYS_arch_prctl, 0x9999, 0)), TRY(syscall(SYS_arch_prctl, 0x1011 /* ARCH_GET_CPUID */, 0));
    return wrong;
}
