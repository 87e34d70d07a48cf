// Raw clone(2) with single flags: CLONE_VM without CLONE_THREAD, CLONE_FS, CLONE_VFORK, PARENT_SETTID.
#include "guest.h"
static int shared;
static int body(void *a) {
    shared = 5;
    close(20);
    chdir("/");
    return 6;
}
int main(int argc, char **argv) {
    static const int flags[] = {0, CLONE_VM, CLONE_FS, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND,
                                CLONE_VM | CLONE_VFORK};
    char *stack = malloc(65536), cwd[4096];
    for (size_t i = 0; i < COUNT(flags); i++) {
        pid_t tid = 0;
        int s, start = open(".", O_RDONLY);
        shared = 0, dup2(0, 20);
        pid_t c = clone(body, stack + 65536, flags[i] | CLONE_PARENT_SETTID | SIGCHLD, NULL, &tid);
        EXPECT(c > 0 && tid == c);
        waitpid(c, &s, 0);
        say("flags %zu: status %d, shared %d, fd closed %d, moved %d", i, WEXITSTATUS(s), shared,
            fcntl(20, F_GETFD) == -1, !strcmp(getcwd(cwd, 4096), "/"));
        fchdir(start), close(start);
    }
    // What no flag asks for is not looked at.
    long bad = (long)0xdeadbeefdeadbeef;
    pid_t c = (pid_t)syscall(SYS_clone, SIGCHLD, 0, bad, bad, bad);
    if (c == 0)
        _exit(3);
    int s;
    EXPECT(waitpid(c, &s, 0) == c && WEXITSTATUS(s) == 3);
    TRY(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0));
    TRY(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
    return wrong;
}
