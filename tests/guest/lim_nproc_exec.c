// fork and execve of an ordinary user whose RLIMIT_NPROC is as low as what the user has: they work or fail,
// and nobody waits for ever (KVM wants a thread of its own; docs/limits.md). krun: host
#include "guest.h"

static void one(int uid, rlim_t limit) {
    struct rlimit r = {limit, limit};
    MUST(setgid(uid)), MUST(setuid(uid)), MUST(setrlimit(RLIMIT_NPROC, &r));
    pid_t child = fork();
    if (!child)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    execl("/bin/true", "true", NULL);
    _exit(1);
}

int main(int argc, char **argv) {
    pid_t all[3];
    for (int i = 0; i < 3; i++)
        all[i] = CHILD(one(61230 + i, 1 + i));
    for (int i = 0; i < 3; i++)
        EXPECT(waitpid(all[i], NULL, 0) == all[i]);
    return wrong;
}
