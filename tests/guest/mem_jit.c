// Code is written, made executable, run, changed, run again (mprotect and double mapping): mprotect(2).
// krun: static
#include "guest.h"
static void emit(unsigned char *at, int value) { // mov $value,%eax; ret
    at[0] = 0xb8, memcpy(at + 1, &value, 4), at[5] = 0xc3;
}
int main(int argc, char **argv) {
    unsigned char *p = pages(1);
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        MUST(mprotect(p, PAGE, PROT_READ | PROT_WRITE));
        emit(p, i);
        MUST(mprotect(p, PAGE, PROT_READ | PROT_EXEC));
        sum += ((int (*)(void))p)();
    }
    say("sum %ld", sum);
    CATCH(p[0] = 1);
    say_fault("write to code", p);
    int fd = MUST(memfd_create("jit", MFD_CLOEXEC));
    MUST(ftruncate(fd, PAGE));
    unsigned char *w = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    unsigned char *x = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0));
    for (int i = sum = 0; i < 200; i++) {
        emit(w, i * 3);
        sum += ((int (*volatile)(void))x)();
    }
    say("two mappings: sum %ld", sum);
    return 0;
}
