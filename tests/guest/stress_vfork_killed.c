// SIGKILL of a vfork child inside a memory call: its parent goes on, with its memory whole (vfork(2)).
// krun: static timeout=60
#include "guest.h"

#define ROUNDS scaled(200)
#define KEPT 16UL // pages that must survive every round

static _Atomic int victim; // pid of the child of this round
static _Atomic int over;
static unsigned seed = 1;

static unsigned next(void) {
    seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
    return seed;
}

// Kills each child that shows its pid, after a time that differs from round to round.
static void *killer(void *unused) {
    (void)unused;
    while (!over) {
        int pid = victim;
        if (!pid)
            continue;
        for (volatile unsigned n = next() % 1000000; n; n--)
            ;
        victim = 0;
        kill(pid, SIGKILL);
    }
    return NULL;
}

static char *scratch;

// Calls of every kind that changes memory, until the end comes.
static void change(unsigned kind) {
    for (;;) {
        char *p;
        switch (kind % 4) {
        case 0:
            p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(p, 8 * PAGE);
            break;
        case 1:
            mprotect(scratch + PAGE, PAGE, PROT_READ);
            mprotect(scratch + PAGE, PAGE, PROT_READ | PROT_WRITE);
            break;
        case 2:
            sbrk(PAGE);
            sbrk(-(intptr_t)PAGE);
            break;
        default:
            p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            p = mremap(p, 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
            munmap(p, 64 * PAGE);
        }
    }
}

static int shared_child(void *kind) {
    victim = getpid();
    change((unsigned)(uintptr_t)kind);
    return 0;
}

int main(void) {
    char *kept = pages(KEPT), *stack = pages(KEPT);
    scratch = pages(3);
    memset(kept, 'k', KEPT * PAGE);
    pthread_t t = thread(killer, NULL);
    long killed = 0, whole = 0, works = 0, rounds = ROUNDS;
    for (long i = 0; i < rounds; i++) {
        int status = 0;
        volatile pid_t c;
        if (i & 1) {
            c = clone(shared_child, stack + KEPT * PAGE, CLONE_VM | SIGCHLD, (void *)(uintptr_t)(i / 2));
        } else if (!(c = vfork())) {
            victim = (int)syscall(SYS_getpid);
            change((unsigned)i / 2);
        }
        if (i & 1) // the parent changes the same memory meanwhile
            while (waitpid(c, &status, WNOHANG) == 0) {
                char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                munmap(p, PAGE);
            }
        else
            MUST(waitpid(c, &status, 0));
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED) {
            p[3 * PAGE] = 1;
            works += mprotect(p + PAGE, PAGE, PROT_NONE) == 0 && munmap(p, 4 * PAGE) == 0;
        }
        MUST(mprotect(scratch, 3 * PAGE, PROT_READ | PROT_WRITE));
        scratch[PAGE] = 1;
        size_t n = 0;
        while (n < KEPT * PAGE && kept[n] == 'k')
            n++;
        whole += n == KEPT * PAGE;
    }
    over = 1;
    join(t);
    EXPECT(killed == rounds);
    EXPECT(whole == rounds);
    EXPECT(works == rounds);
    EXPECT(sbrk(PAGE) != (void *)-1);
    return wrong;
}
