// dlopen(3) of a shared object: constructor, symbols, its own TLS, destructor at dlclose.
// krun: so no-pie musl
#include "guest.h"
#include <dlfcn.h>
#ifdef SHARED_OBJECT
static __thread int counter = 100;
__attribute__((constructor)) static void begin(void) { say("object constructor"); }
__attribute__((destructor)) static void finish(void) { say("object destructor"); }
int next(void) { return ++counter; }
int shared_value = 77;
#else
static void *run(void *next) { return (void *)(intptr_t)((int (*)(void))next)(); }
int main(int argc, char **argv) {
    char path[4096];
    snprintf(path, sizeof(path), "%s.so", argv[0]);
    void *object = MUSTP(dlopen(path, RTLD_NOW));
    int (*next)(void) = dlsym(object, "next");
    say("next %d %d, value %d", next(), next(), *(int *)dlsym(object, "shared_value"));
    say("in a thread %d", (int)(intptr_t)join(thread(run, next)));
    EXPECT(dlsym(object, "missing") == NULL && dlerror() != NULL);
    EXPECT(dlclose(object) == 0);
    EXPECT(dlopen("/nowhere.so", RTLD_NOW) == NULL);
    return wrong;
}
#endif
