// Memory that gets no huge page, even if its neighbour is in use: MADV_NOHUGEPAGE, MAP_STACK, a thread's
// stack. Advice for a range with a hole: madvise(2).
#include "guest.h"
#include <pthread.h>

#define BLOCK (2UL << 20)

static const char *resident(char *from, size_t len) {
    unsigned char in[BLOCK / PAGE];
    int n = 0;
    TRY(mincore(from, len, in));
    for (size_t i = 0; i < len / PAGE; i++)
        n += in[i] & 1;
    return n == 0 ? "none" : n <= 16 ? "few" : "many";
}

// Touches the end of a block, then a page of the one below it.
static void touch(const char *what, int flags, int advice) {
    char *p = mmap(NULL, 5 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    p = (char *)(((uintptr_t)p + BLOCK) & ~(BLOCK - 1));
    if (advice)
        TRY(madvise(p, 3 * BLOCK, advice));
    p[2 * BLOCK] = 1;
    p[2 * BLOCK - 1] = 2;
    say("%s: %s, below %s", what, resident(p + BLOCK, BLOCK), resident(p, BLOCK));
    say("contents %d %d %d", p[2 * BLOCK], p[2 * BLOCK - 1], p[2 * BLOCK - 2]);
}

static void *deep(void *arg) {
    volatile char room[64 * 1024];
    pthread_attr_t attr;
    void *low;
    size_t size;
    room[0] = 1;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &low, &size);
    say("a thread's stack, two blocks from the bottom: %s", resident(low, BLOCK));
    char *below = (char *)(((uintptr_t)room - 256 * 1024) & ~(PAGE - 1UL));
    say("a quarter of a megabyte below its end: %s", resident(below, 64 * 1024));
    return arg;
}

int main(int argc, char **argv) {
    pthread_t t;
    touch("no huge page", 0, MADV_NOHUGEPAGE);
    touch("a stack", MAP_STACK, MADV_NOHUGEPAGE);
    touch("a stack without advice", MAP_STACK | MAP_NORESERVE, 0);
    pthread_create(&t, NULL, deep, NULL);
    pthread_join(t, NULL);

    char *p = pages(3);
    memset(p, 6, 3 * PAGE);
    TRY(munmap(p + PAGE, PAGE));
    TRY(madvise(p, 3 * PAGE, MADV_NOHUGEPAGE));
    TRY(madvise(p, 3 * PAGE, MADV_DONTFORK)); // the error comes last
    reap("child", CHILD({
             CATCH(*(volatile char *)p);
             say_fault("first", p);
             CATCH(*(volatile char *)(p + 2 * PAGE));
             say_fault("behind the hole", p);
         }));
    TRY(madvise(p, 3 * PAGE, MADV_DOFORK));
    reap("child", CHILD(say("kept %d %d", p[0], p[2 * PAGE])));
    return 0;
}
