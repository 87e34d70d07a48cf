// RLIMIT_AS and RLIMIT_DATA, well above what a program uses, let it fork, exec and start threads.
#include "guest.h"
static void *run(void *a) { return a; }
static void limited(int which, const char *name, rlim_t bytes) {
    struct rlimit r = {bytes, bytes};
    say("%s", name);
    pid_t p = CHILD({
        MUST(setrlimit(which, &r));
        EXPECT(join(thread(run, (void *)7L)) == (void *)7L);
        pid_t q = CHILD(_exit(5));
        reap("child", q);
        q = CHILD(execl("/bin/true", "true", NULL));
        reap("exec", q);
        EXPECT(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
        say("%s", errno_name(errno));
    });
    reap(name, p);
}
int main(int argc, char **argv) {
    limited(RLIMIT_AS, "address space", 128 << 20);
    limited(RLIMIT_DATA, "data", 64 << 20);
    return wrong;
}
