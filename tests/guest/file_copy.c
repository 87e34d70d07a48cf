// copy_file_range, sendfile, with and without offsets: copy_file_range(2), sendfile(2).
#include "guest.h"
#include <sys/sendfile.h>
int main(int argc, char **argv) {
    int a = file_with("a", "0123456789abcdefghij"), b = file_with("b", ""), p[2];
    char text[50] = "";
    off_t in = 5, out = 2;
    SHOW(copy_file_range(a, &in, b, &out, 10, 0));
    say("offsets %ld %ld", (long)in, (long)out);
    SHOW(copy_file_range(a, &in, b, NULL, 100, 0));
    SHOW(copy_file_range(a, &in, b, NULL, 100, 0));
    SHOW(pread(b, text, 49, 0));
    for (char *c = text; c < text + 17; c++)
        *c = *c ? *c : '.';
    say("%s", text);
    TRY(copy_file_range(a, NULL, b, NULL, 1, 1));
    MUST(pipe(p));
    in = 3;
    SHOW(sendfile(p[1], a, &in, 4));
    memset(text, 0, 50), read(p[0], text, 49), say("%s, offset %ld", text, (long)in);
    lseek(a, 18, SEEK_SET);
    SHOW(sendfile(b, a, NULL, 100));
    TRY(sendfile(b, p[0], NULL, 1));
    TRY(sendfile(b, a, (void *)8, 1));
    TRY(sendfile(99, a, NULL, 1));
    return 0;
}
