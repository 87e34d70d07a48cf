// abort(3) ends the program with SIGABRT.
// krun: static exit=SIGABRT
#include "guest.h"
int main(int argc, char **argv) {
    say("aborting");
    abort();
}
