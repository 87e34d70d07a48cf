// A child whose parent dies gets another parent, here a subreaper; it collects the orphan: prctl(2).
#include "guest.h"
#include <sys/prctl.h>
int main(int argc, char **argv) {
    int p[2], s, on = 0;
    pid_t grandchild;
    TRY(prctl(PR_SET_CHILD_SUBREAPER, 1));
    prctl(PR_GET_CHILD_SUBREAPER, &on);
    say("subreaper %d", on);
    MUST(pipe(p));
    pid_t c = CHILD({
        pid_t parent = getpid();
        pid_t g = CHILD({
            while (getppid() == parent)
                pause_ms(1);
            // its end is reported below: only an adopted one can be waited for here
            _exit(17);
        });
        write(p[1], &g, sizeof(g));
        _exit(1);
    });
    reap("child", c);
    read(p[0], &grandchild, sizeof(grandchild));
    EXPECT(wait(&s) == grandchild);
    say_status("orphan", s);
    return wrong;
}
