// After fork(2) each side has its own memory, whatever was given to it ahead: data, heap, mappings of all
// sizes; a private mapping of a file shows later writes to the file as long as it is untouched (mmap(2)).
#include "guest.h"

#define AREAS 7
static char data_[3 * PAGE] = {1}, bss_[5 * PAGE];
static struct {
    char *at;
    size_t len;
} area[AREAS];

static void fill(char value) {
    for (int i = 0; i < AREAS; i++)
        for (size_t k = 0; k < area[i].len; k += PAGE)
            area[i].at[k] = value;
}

static int holds(char value) {
    for (int i = 0; i < AREAS; i++)
        for (size_t k = 0; k < area[i].len; k += PAGE)
            if (area[i].at[k] != value)
                return 0;
    return 1;
}

static char *anon(size_t len) {
    char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

int main(void) {
    size_t sizes[] = {PAGE, 96 << 10, 1 << 20, 2560 << 10};
    area[0].at = data_;
    area[0].len = sizeof data_;
    area[1].at = bss_;
    area[1].len = sizeof bss_;
    area[2].len = 300 << 10;
    area[2].at = sbrk((intptr_t)area[2].len);
    for (int i = 0; i < 4; i++) {
        area[3 + i].len = sizes[i];
        area[3 + i].at = anon(sizes[i]);
        MUST(area[3 + i].at ? 0 : -1);
    }
    int zero = 1;
    for (int i = 1; i < AREAS; i++)
        for (size_t k = 0; k < area[i].len; k++)
            zero &= area[i].at[k] == 0;
    EXPECT(zero);

    /* Both sides write after every fork, children fork, too. */
    fill(7);
    for (int round = 0; round < 3; round++) {
        int go[2];
        MUST(pipe(go));
        pid_t child = fork();
        if (!child) {
            char c;
            int ok = holds((char)(7 + round));
            ok &= read(go[0], &c, 1) == 1; /* the parent has written by now */
            ok &= holds((char)(7 + round));
            fill(99);
            pid_t grandchild = fork();
            if (!grandchild) {
                ok &= holds(99);
                fill(100);
                _exit(!ok);
            }
            int status = -1;
            waitpid(grandchild, &status, 0);
            _exit(!(ok && status == 0 && holds(99)));
        }
        fill((char)(8 + round));
        MUST(write(go[1], "x", 1) == 1 ? 0 : -1);
        int status = -1;
        waitpid(child, &status, 0);
        say("round %d: child %d, parent's own: %s", round, status, holds((char)(8 + round)) ? "yes" : "NO");
        close(go[0]);
        close(go[1]);
    }

    /* A private file mapping that is writable but untouched, over a fork, too. */
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(ftruncate(fd, 4 * PAGE));
    char *f = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    MUST(f == MAP_FAILED ? -1 : 0);
    f[0] = 'm';
    pid_t child = fork();
    if (!child)
        _exit(0);
    waitpid(child, NULL, 0);
    MUST(pwrite(fd, "late", 4, PAGE) == 4 ? 0 : -1);
    MUST(pwrite(fd, "lost", 4, 0) == 4 ? 0 : -1);
    EXPECT(memcmp(f + PAGE, "late", 4) == 0);
    EXPECT(f[0] == 'm' && f[1] == 0);
    return wrong;
}
