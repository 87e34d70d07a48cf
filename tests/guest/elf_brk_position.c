// The heap starts behind the program's bss: brk(2).
// krun: static no-pie
#include "guest.h"
extern char end;
int main(int argc, char **argv) {
    char *start = (char *)syscall(SYS_brk, 0);
    EXPECT(start >= &end);
    EXPECT(start < &end + (1L << 35));
    EXPECT((char *)syscall(SYS_brk, start + 10000) == start + 10000);
    memset(start, 1, 10000);
    EXPECT((char *)syscall(SYS_brk, start) == start);
    EXPECT((char *)syscall(SYS_brk, 1) == start); // below the start: no change
    return wrong;
}
