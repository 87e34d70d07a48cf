// Thread-local variables: initialised, zero, aligned; each thread has its own: elf(5).
// krun: all
#include "guest.h"
static __thread int set = 42, zero;
static __thread struct { _Alignas(64) char bytes[64]; } aligned;
static void *run(void *a) {
    EXPECT(set == 42 && zero == 0);
    EXPECT((uintptr_t)&aligned % 64 == 0);
    set = 7, zero = 8;
    return NULL;
}
int main(int argc, char **argv) {
    EXPECT(set == 42 && zero == 0 && (uintptr_t)&aligned % 64 == 0);
    for (int i = 0; i < 3; i++)
        join(thread(run, NULL));
    EXPECT(set == 42 && zero == 0);
    return wrong;
}
