// Writing constants, text or relocated read-only data is an access error, not a mapping error: elf(5).
// krun: static no-pie static-pie
#include "guest.h"
static const int constant[4096] = {1, 2, 3};
static int function(void) { return 1; }
static int (*const table[])(void) = {function, function};
static NOINLINE void put(const void *at) { *(volatile char *)at = 5; }
int main(int argc, char **argv) {
    const void *volatile at = constant;
    CATCH(put(at));
    say_fault("constant", constant);
    CATCH(put(&function));
    say_fault("text", &function);
    at = table;
    CATCH(put(at));
    say_fault("relocated", table);
    return wrong;
}
