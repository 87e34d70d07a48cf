// Code mapped from a file runs, also after the file has been removed: mmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = MUST(open("code", O_RDWR | O_CREAT, 0755));
    MUST(write(fd, "\xb8\x2a\x00\x00\x00\xc3", 6));
    void *p = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
    close(fd), unlink("code");
    say("%d", ((int (*)(void))p)());
    CATCH(*(volatile char *)p = 1);
    say_fault("write", p);
    TRY(mprotect(p, PAGE, PROT_READ | PROT_WRITE));
    *(char *)p = 0x90;
    TRY(mprotect(p, PAGE, PROT_READ | PROT_EXEC));
    return 0;
}
