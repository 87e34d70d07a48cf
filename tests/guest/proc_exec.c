// execve(2): same pid, new image, arguments, environment; cwd and umask stay; atexit does not run.
// krun: static no-pie musl exit=4
#include "guest.h"
extern char **environ;
static int state;
static void bye(void) { say("never printed"); }
int main(int argc, char **argv) {
    if (argc > 2) {
        say("%s %s %s, same pid %d, state %d", argv[0], argv[1], environ[0], atoi(argv[2]) == getpid(),
            state);
        char cwd[100], *last = strrchr(getcwd(cwd, 100), '/');
        say("in %s, umask %o, one variable %d", last, umask(0), environ[1] == NULL);
        return 4;
    }
    char pid[20];
    sprintf(pid, "%d", getpid());
    state = 5, atexit(bye), umask(0147), mkdir("sub", 0700), chdir("sub");
    execve(argv[0], (char *[]){"name", "arg", pid, NULL}, (char *[]){"ONLY=1", NULL});
    return 9;
}
