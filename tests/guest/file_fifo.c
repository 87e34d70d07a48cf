// Named pipes: mkfifo, open blocking until the other side comes, O_NONBLOCK with ENXIO: fifo(7).
#include "guest.h"
int main(int argc, char **argv) {
    char text[20] = "";
    TRY(mkfifo("p", 0600));
    TRY(mkfifo("p", 0600));
    TRY(open("p", O_WRONLY | O_NONBLOCK));
    pid_t c = CHILD({
        int w = open("p", O_WRONLY);
        write(w, "through", 7);
    });
    int r = MUST(open("p", O_RDONLY));
    SHOW(read(r, text, 19)), say("%s", text);
    SHOW(read(r, text, 19));
    reap("writer", c);
    int rw = MUST(open("p", O_RDWR)); // never end of file
    fcntl(rw, F_SETFL, O_NONBLOCK);
    TRY(read(rw, text, 1));
    TRY(mknod("q", S_IFIFO | 0600, 0));
    TRY(mknod("r", S_IFREG | 0600, 0));
    TRY(mknod("s", S_IFDIR | 0600, 0));
    return 0;
}
