// A program that kills itself ends by that signal: kill(2).
// krun: exit=SIGKILL
#include "guest.h"
int main(int argc, char **argv) {
    say("killing");
    kill(getpid(), SIGKILL);
    say("not reached");
    return 0;
}
