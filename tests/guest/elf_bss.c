// A bss of 64 MiB is zero, and the tail of the last data page too: elf(5).
// krun: static
#include "guest.h"
static char data[5000] = {1}, huge[64 << 20];
int main(int argc, char **argv) {
    long sum = 0;
    for (size_t i = 0; i < sizeof(huge); i += 512)
        sum += huge[i];
    say("sum %ld, data %d %d", sum, data[0], data[4999]);
    memset(huge + (32 << 20), 3, 100000);
    say("set %d %d", huge[(32 << 20) + 99999], huge[(32 << 20) + 100000]);
    return 0;
}
