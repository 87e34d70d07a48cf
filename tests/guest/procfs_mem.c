// /proc/self/mem reads and writes own memory or refuses cleanly; nothing above it: proc(5).
#include "guest.h"
static volatile char text[] = "original";
int main(int argc, char **argv) {
    char b[9] = "";
    int fd = open("/proc/self/mem", O_RDWR);
    EXPECT(fd >= 0 || errno == EACCES || errno == EPERM);
    int odd = 0; // a refusal is as good as natively exact contents
    if (fd >= 0) {
        odd += pread(fd, b, 8, (off_t)text) != 8 || strcmp(b, "original");
        odd += pwrite(fd, "changed!", 8, (off_t)text) != 8 || memcmp((char *)text, "changed!", 8);
        odd += pread(fd, b, 8, 8) != -1 || errno != EIO;
    }
    say("odd %d", odd);
    fd = open("/proc/self/pagemap", O_RDONLY);
    EXPECT(fd >= 0 || errno == EACCES || errno == EPERM);
    return wrong;
}
