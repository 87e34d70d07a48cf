// daemon(3): in the background, another session, / as directory, writing to an open descriptor.
#include "guest.h"
#include <sys/prctl.h>
int main(int argc, char **argv) {
    int p[2], s;
    char text[100] = "";
    MUST(prctl(PR_SET_CHILD_SUBREAPER, 1));
    MUST(pipe(p));
    pid_t me = getpid();
    reap("starter", CHILD({
             daemon(0, 0);
             while (getppid() != me) // adopted by the subreaper when the starter is gone
                 pause_ms(1);
             char cwd[10];
             int n = sprintf(text, "cwd %s, session of its own %d", getcwd(cwd, 10), getsid(0) != getsid(me));
             write(p[1], text, n);
             _exit(33);
         }));
    close(p[1]);
    read(p[0], text, 99);
    say("%s", text);
    wait(&s);
    say_status("daemon", s);
    return 0;
}
