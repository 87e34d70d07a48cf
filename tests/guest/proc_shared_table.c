// A child made with CLONE_FILES (vfork has it not): descriptors opened by the other side appear: clone(2).
#include "guest.h"
static int body(void *a) {
    int p[2];
    pipe(p);
    dup2(p[0], 40), dup2(p[1], 41);
    write(41, "through", 7);
    return 0;
}
int main(int argc, char **argv) {
    char text[20] = "", *stack = malloc(65536);
    pid_t c = clone(body, stack + 65536, CLONE_FILES | SIGCHLD, NULL);
    reap("child", c);
    SHOW(read(40, text, 19));
    say("%s", text);
    return 0;
}
