// A child with CLONE_FILES shares descriptors with its parent, or is refused (docs/limits.md): clone(2).
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
    int refused = c == -1 && errno == EINVAL, status = -1;
    if (c > 0)
        waitpid(c, &status, 0);
    EXPECT(refused || (status == 0 && read(40, text, 19) == 7 && !strcmp(text, "through")));
    c = clone(body, stack + 65536, CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    reap("with CLONE_VM", c);
    SHOW(read(40, text, 19));
    return wrong;
}
