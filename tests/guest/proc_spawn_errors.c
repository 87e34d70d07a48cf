// posix_spawn(3) reports a failing exec or file action as its own result.
#include "guest.h"
#include <spawn.h>
int main(int argc, char **argv) {
    pid_t pid = -5;
    char *args[] = {"x", NULL};
    close(file_with("data", "no program"));
    say("%s", errno_name(posix_spawn(&pid, "/nowhere/x", NULL, NULL, args, NULL)));
    say("%s", errno_name(posix_spawn(&pid, "/etc", NULL, NULL, args, NULL)));
    say("%s", errno_name(posix_spawn(&pid, "data", NULL, NULL, args, NULL)));
    say("%s", errno_name(posix_spawnp(&pid, "no-such-command", NULL, NULL, args, NULL)));
    posix_spawn_file_actions_t a;
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_adddup2(&a, 77, 1);
    say("%s", errno_name(posix_spawn(&pid, argv[0], &a, NULL, args, NULL)));
    TRY(wait(NULL)); // nothing left behind
    return 0;
}
