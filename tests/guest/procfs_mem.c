// /proc/self/mem reads and writes own memory or refuses cleanly; nothing above it: proc(5).
#include "guest.h"
static volatile char text[] = "original";
int main(int argc, char **argv) {
    char b[9] = "";
    int fd = open("/proc/self/mem", O_RDWR);
    EXPECT(fd >= 0 || errno == EACCES || errno == EPERM);
    if (fd >= 0) {
        EXPECT(pread(fd, b, 8, (off_t)text) == 8 && !strcmp(b, "original"));
        EXPECT(pwrite(fd, "changed!", 8, (off_t)text) == 8 && !memcmp((char *)text, "changed!", 8));
        EXPECT(pread(fd, b, 8, 8) == -1 && errno == EIO);
    }
    fd = open("/proc/self/pagemap", O_RDONLY);
    EXPECT(fd >= 0 || errno == EACCES || errno == EPERM);
    return wrong;
}
