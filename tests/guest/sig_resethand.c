// SA_RESETHAND: the handler runs once, then the default action: sigaction(2).
#include "guest.h"
static void h(int s) { say("handler"); }
int main(int argc, char **argv) {
    struct sigaction a;
    reap("child", CHILD({
             on(SIGTERM, h, SA_RESETHAND);
             raise(SIGTERM);
             sigaction(SIGTERM, NULL, &a);
             say("default again %d", a.sa_handler == SIG_DFL);
             raise(SIGTERM);
         }));
    return 0;
}
