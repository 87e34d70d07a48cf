// shmdt(2) of a segment of which parts are unmapped, replaced by other memory, or moved: only what is the
// segment's goes. krun: static
#include "guest.h"
#include <sys/shm.h>
static int is_mapped(void *p) {
    unsigned char in;
    return mincore(p, PAGE, &in) == 0;
}
static void say_pages(const char *what, char *p) {
    say("%s: %d%d%d%d%d", what, is_mapped(p), is_mapped(p + PAGE), is_mapped(p + 2 * PAGE),
        is_mapped(p + 3 * PAGE), is_mapped(p + 4 * PAGE));
}
int main(int argc, char **argv) {
    int id = MUST(shmget(IPC_PRIVATE, 5 * PAGE - 100, IPC_CREAT | 0600));
    char *room = pages(64), *a = room, *b = room + 32 * PAGE;
    struct shmid_ds d;
    munmap(room, 64 * PAGE);
    // The whole segment is gone, and other memory has its place.
    EXPECT(shmat(id, a, 0) == a);
    MUST(munmap(a, 5 * PAGE));
    EXPECT(mmap(a, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == a);
    strcpy(a, "mine"), TRY(shmdt(a)), say_pages("other memory", a), say("%s", is_mapped(a) ? a : "gone");
    munmap(a, 5 * PAGE);
    // A page in the middle is another's.
    EXPECT(shmat(id, a, 0) == a);
    EXPECT(mmap(a + 2 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           a + 2 * PAGE);
    TRY(shmdt(a)), say_pages("a page replaced", a);
    munmap(a, 5 * PAGE);
    // The first page is gone; then one in the middle; then other rights.
    EXPECT(shmat(id, a, 0) == a);
    MUST(munmap(a, PAGE)), TRY(shmdt(a + PAGE)), TRY(shmdt(a)), say_pages("without its first page", a);
    EXPECT(shmat(id, a, 0) == a);
    MUST(munmap(a + 2 * PAGE, PAGE)), MUST(mprotect(a + 3 * PAGE, PAGE, PROT_READ)), TRY(shmdt(a));
    say_pages("in three parts", a);
    // Moved as a whole, and in part.
    EXPECT(shmat(id, a, 0) == a);
    EXPECT(mremap(a, 5 * PAGE, 5 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, b) == b);
    TRY(shmdt(a)), TRY(shmdt(b)), say_pages("moved", b);
    EXPECT(shmat(id, a, 0) == a);
    EXPECT(mremap(a + 3 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, b + 3 * PAGE) == b + 3 * PAGE);
    TRY(shmdt(a)), say_pages("what stayed", a), TRY(shmdt(b + 3 * PAGE)), TRY(shmdt(b)),
        say_pages("what moved", b);
    // Two places, and one page twice.
    EXPECT(shmat(id, a, 0) == a && shmat(id, b, 0) == b);
    TRY(shmdt(a)), say_pages("one of two", a), say_pages("the other", b);
    EXPECT(mremap(b + PAGE, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, a + PAGE) == a + PAGE);
    TRY(shmdt(b)), TRY(shmdt(a)), TRY(shmdt(a)), TRY(shmdt(a + 1));
    // Grown beyond the segment, as one mapping and as two; a second segment behind the first one's size.
    EXPECT(shmat(id, a, 0) == a && mremap(a, 5 * PAGE, 8 * PAGE, 0) == a);
    TRY(shmdt(a)), say_pages("grown", a), say_pages("its end", a + 3 * PAGE);
    EXPECT(shmat(id, a, 0) == a && mremap(a, 5 * PAGE, 8 * PAGE, 0) == a);
    MUST(mprotect(a + 3 * PAGE, PAGE, PROT_READ));
    TRY(shmdt(a)), say_pages("grown, in three parts", a), say_pages("its end", a + 3 * PAGE);
    TRY(shmdt(a)), say_pages("once more", a), say_pages("its end", a + 3 * PAGE);
    EXPECT(shmat(id, a, 0) == a && mremap(a, 5 * PAGE, 8 * PAGE, 0) == a);
    EXPECT(mremap(a, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, b) == b);
    MUST(munmap(b, PAGE)), MUST(mprotect(b + 5 * PAGE, PAGE, PROT_READ));
    TRY(shmdt(b)), say_pages("grown and moved", b), say_pages("its end", b + 3 * PAGE);
    TRY(shmdt(b)), TRY(shmdt(b)), say_pages("its end", b + 3 * PAGE);
    MUST(munmap(a, 8 * PAGE)), MUST(munmap(b, 8 * PAGE));
    MUST(shmctl(id, IPC_STAT, &d)), say("attached %ld", (long)d.shm_nattch);
    MUST(shmctl(id, IPC_RMID, NULL)), TRY(shmctl(id, IPC_STAT, &d));
    return wrong;
}
