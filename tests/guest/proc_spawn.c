// posix_spawn(3) with file actions: output into a pipe, closed descriptors, another directory is not changed.
// krun: static musl
#include "guest.h"
#include <spawn.h>
extern char **environ;
int main(int argc, char **argv) {
    if (argc > 1) {
        say("child argument %s, fd 9 %s", argv[1], fcntl(9, F_GETFD) == -1 ? "closed" : "open");
        return 21;
    }
    int p[2];
    char text[200] = "";
    pid_t pid;
    char *args[] = {argv[0], "hello", NULL};
    posix_spawn_file_actions_t a;
    MUST(pipe(p));
    dup2(p[0], 9);
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_adddup2(&a, p[1], 1);
    posix_spawn_file_actions_addclose(&a, p[0]);
    posix_spawn_file_actions_addclose(&a, 9);
    posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
    SHOW(posix_spawn(&pid, argv[0], &a, NULL, args, environ));
    close(p[1]);
    read(p[0], text, 199);
    say("read: %s", text);
    reap("child", pid);
    SHOW(posix_spawnp(&pid, "true", NULL, NULL, (char *[]){"true", NULL}, environ));
    reap("true", pid);
    return 0;
}
