// pthread_key_create: values per thread, destructors at its end, repeated while values are set.
// krun: static musl
#include "guest.h"
static pthread_key_t key;
static int rounds;
static void destroy(void *v) {
    say("destructor %ld", (long)v);
    if (++rounds < 3)
        pthread_setspecific(key, (void *)((long)v + 1));
}
static void *run(void *a) {
    EXPECT(pthread_getspecific(key) == NULL);
    pthread_setspecific(key, a);
    return NULL;
}
int main(int argc, char **argv) {
    pthread_key_create(&key, destroy);
    pthread_setspecific(key, (void *)99L);
    join(thread(run, (void *)10L));
    say("main has %ld", (long)pthread_getspecific(key));
    pthread_setspecific(key, NULL);
    return wrong;
}
