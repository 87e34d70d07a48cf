// The smallest program of each kind starts, prints and ends with a status.
// krun: all exit=42
#include "guest.h"
int main(int argc, char **argv) {
    printf("hello from stdio\n");
    fprintf(stderr, "and on stderr\n");
    return 42;
}
