// Stack, heap, data and anonymous memory do not run: SIGSEGV, SEGV_ACCERR at the instruction: mprotect(2).
// krun: static no-pie
#include "guest.h"
static unsigned char data[64] = {0xc3};
int main(int argc, char **argv) {
    unsigned char stack[64] = {0xc3}, *heap = malloc(64), *anon = pages(1);
    heap[0] = anon[0] = 0xc3;
    struct {
        const char *name;
        unsigned char *at;
    } all[] = {{"stack", stack}, {"heap", heap}, {"data", data}, {"anonymous", anon}};
    for (volatile size_t i = 0; i < COUNT(all); i++) {
        CATCH(((void (*)(void))all[i].at)());
        say_fault(all[i].name, all[i].at);
    }
    MUST(mprotect(anon, PAGE, PROT_READ | PROT_EXEC));
    CATCH(((void (*)(void))anon)());
    say_fault("made executable", anon);
    return 0;
}
