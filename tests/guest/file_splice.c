// splice, tee, vmsplice between pipes, files and memory: splice(2).
#include "guest.h"
#include <sys/uio.h>
int main(int argc, char **argv) {
    int a = file_with("a", "the contents"), b = file_with("b", ""), p[2], q[2];
    char text[40] = "", mem[] = "from memory";
    off_t at = 4;
    MUST(pipe(p)), MUST(pipe(q));
    SHOW(splice(a, &at, p[1], NULL, 100, 0));
    SHOW(tee(p[0], q[1], 100, 0));
    SHOW(splice(p[0], NULL, b, NULL, 100, 0));
    SHOW(read(q[0], text, 39)), say("%s", text);
    struct iovec v = {mem, 11};
    SHOW(vmsplice(p[1], &v, 1, 0));
    memset(text, 0, 40), read(p[0], text, 39), say("%s", text);
    write(q[1], "into", 4);
    memset(text, 0, 40), v = (struct iovec){text, 39};
    SHOW(vmsplice(q[0], &v, 1, 0)), say("%s", text);
    TRY(splice(p[0], NULL, q[1], NULL, 1, SPLICE_F_NONBLOCK));
    TRY(splice(a, NULL, b, NULL, 1, 0));
    TRY(splice(p[0], &at, b, NULL, 1, 0));
    TRY(tee(a, q[1], 1, 0));
    v.iov_base = (void *)8;
    TRY(vmsplice(p[1], &v, 1, 0));
    return 0;
}
