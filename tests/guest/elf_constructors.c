// Constructors in order of priority before main, destructors and atexit(3) handlers in reverse after it.
// krun: all exit=5
#include "guest.h"
__attribute__((constructor(101))) static void first(void) { say("constructor 101"); }
__attribute__((constructor(102))) static void second(int argc, char **argv) { say("constructor 102"); }
__attribute__((destructor(101))) static void last(void) { say("destructor 101"); }
static void handler(void) { say("atexit"); }
int main(int argc, char **argv) {
    atexit(handler);
    say("main");
    return 5;
}
