// Thread stacks: chosen size and guard page (its touch kills), own stack memory: pthread_attr_setstack(3).
#include "guest.h"
static void *use(void *a) {
    volatile char room[200000];
    memset((void *)room, 1, sizeof(room));
    return (void *)(long)room[199999];
}
static NOINLINE int deep(int n) {
    volatile char room[1000];
    room[0] = n;
    return deep(n + 1) + room[0];
}
static void *overflow(void *a) { return (void *)(long)deep(0); }
static void *where(void *a) {
    uintptr_t here = (uintptr_t)&a;
    return (void *)here;
}
int main(int argc, char **argv) {
    pthread_attr_t at;
    pthread_t t;
    pthread_attr_init(&at), pthread_attr_setstacksize(&at, 262144);
    pthread_create(&t, &at, use, NULL);
    say("used %ld", (long)join(t));
    char *own = pages(64);
    pthread_attr_setstack(&at, own, 64 * PAGE);
    pthread_create(&t, &at, where, NULL);
    char *p = join(t);
    EXPECT(p > own && p < own + 64 * PAGE);
    reap("overflow", CHILD({
             pthread_create(&t, NULL, overflow, NULL);
             join(t);
         }));
    return wrong;
}
