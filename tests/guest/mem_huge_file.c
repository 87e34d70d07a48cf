// Mappings of files of hugetlbfs: where they begin, how long they are, what cannot split them: mmap(2),
// memfd_create(2). No page is touched: the machine need not have one.
#include "guest.h"
#include <linux/memfd.h>
#define HUGE (2UL << 20)
#define FLAGS (MAP_PRIVATE | MAP_NORESERVE)
int main(int argc, char **argv) {
    int fd = memfd_create("pages", MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd < 0) {
        say("no hugetlbfs: %s", errno_name(errno));
        return wrong;
    }
    EXPECT(lseek(fd, 0, SEEK_END) == 0);
    TRY(ftruncate(fd, PAGE));
    TRY(ftruncate(fd, 2 * HUGE));
    char *p = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, FLAGS, fd, 0)); // one huge page
    EXPECT((uintptr_t)p % HUGE == 0);
    TRY(munmap(p, PAGE));
    TRY(mprotect(p, PAGE, PROT_READ));
    TRY(mmap(p + HUGE - PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    TRY(munmap(p, HUGE));
    TRY(mmap(NULL, HUGE, PROT_READ, FLAGS, fd, PAGE));
    TRY(mmap(NULL, HUGE, PROT_READ | PROT_EXEC, FLAGS, fd, HUGE));
    // A fixed one takes the place of everything in the huge page.
    char *room = MUSTP(mmap(NULL, 4 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(room, 7, 4 * HUGE);
    char *at = (char *)(((uintptr_t)room + HUGE - 1) & ~(HUGE - 1));
    TRY(mmap(at + PAGE, PAGE, PROT_READ, FLAGS | MAP_FIXED, fd, 0));
    EXPECT(mmap(at, PAGE, PROT_NONE, FLAGS | MAP_FIXED, fd, 0) == at);
    TRY(mmap(at + HUGE - PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    EXPECT(at[HUGE] == 7);
    pid_t c = CHILD(_exit(at[HUGE - PAGE]));
    reap("behind the first page of the mapping", c);
    // Shared ones reserve their pages: without any there is no memory.
    p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        say("no huge pages: %s", errno_name(errno));
    else
        p[HUGE - 1] = 1, say("a huge page holds %d", p[HUGE - 1]);
    return wrong;
}
