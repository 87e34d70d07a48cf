// The status a program ends with is its own: exit(3).
// krun: static musl-static exit=7
#include "guest.h"
int main(int argc, char **argv) { return 7; }
