// Each protection allows what it says; si_addr and si_code are exact: mprotect(2), sigaction(2).
// krun: static musl-static
#include "guest.h"
int main(int argc, char **argv) {
    static const int kinds[] = {PROT_NONE,
                                PROT_READ,
                                PROT_READ | PROT_WRITE,
                                PROT_READ | PROT_EXEC,
                                PROT_READ | PROT_WRITE | PROT_EXEC,
                                PROT_EXEC};
    char *p = pages(3);
    memset(p, 0xc3, 3 * PAGE); // ret
    for (size_t i = 0; i < COUNT(kinds); i++) {
        MUST(mprotect(p + PAGE, PAGE, kinds[i]));
        char name[40];
        CATCH(*(volatile char *)(p + PAGE + 77) = 0xc3);
        // Where the processor has protection keys Linux uses one for execute-only; the VM has none.
        if (kinds[i] == PROT_EXEC && fault.code == SEGV_PKUERR)
            fault.code = SEGV_ACCERR;
        sprintf(name, "prot %d write", kinds[i]), say_fault(name, p + PAGE);
        if (kinds[i] != PROT_EXEC) { // with protection keys an execute-only page is unreadable
            CATCH(*(volatile char *)(p + 2 * PAGE - 1));
            sprintf(name, "prot %d read", kinds[i]), say_fault(name, p + PAGE);
        }
        CATCH(((void (*)(void))(p + PAGE + 9))());
        sprintf(name, "prot %d run", kinds[i]), say_fault(name, p + PAGE);
        EXPECT(p[0] == (char)0xc3 && p[2 * PAGE] == (char)0xc3);
    }
    return wrong;
}
