// A process reads and writes its own memory by its number: process_vm_readv(2), process_madvise(2).
#include "guest.h"
#include <sys/uio.h>
static pid_t self;
static long vm(int write, pid_t pid, struct iovec *l, unsigned long nl, struct iovec *r, unsigned long nr,
               unsigned long flags) {
    return syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, pid, l, nl, r, nr, flags);
}
static void *by_tid(void *arg) {
    struct iovec *v = arg;
    say("by a thread's number: %ld", vm(0, gettid(), v, 1, v + 1, 1, 0));
    return NULL;
}
int main(int argc, char **argv) {
    char from[64] = "the quick brown fox jumps over the lazy dog", to[64] = "";
    self = getpid();
    struct iovec l[3] = {{to, 4}, {to + 4, 0}, {to + 4, 60}},
                 r[3] = {{from, 10}, {from + 10, 6}, {from + 16, 20}};
    SHOW(vm(0, self, l, 3, r, 3, 0)), say("%.36s", to);
    memset(to, 0, sizeof to);
    SHOW(vm(0, self, l, 1, r, 3, 0)), say("%.36s", to);
    strcpy(to, "another text");
    SHOW(vm(1, self, l, 3, r, 1, 0)), say("%s", from);
    SHOW(vm(0, self, l, 0, r, 1, 0)), SHOW(vm(0, self, l, 1, r, 0, 0)), SHOW(vm(0, self, l, 1, r, 1, 1)),
        SHOW(vm(0, self, l, 1025, r, 1, 0)), SHOW(vm(0, self, l, 1, r, 1025, 0));
    SHOW(vm(0, self, (void *)8, 1, r, 1, 0)), SHOW(vm(0, self, l, 1, (void *)8, 1, 0));
    char *p = pages(3);
    memset(p, 'x', 3 * PAGE);
    MUST(mprotect(p + PAGE, PAGE, PROT_NONE));
    char *big = pages(3);
    struct iovec whole = {big, 3 * PAGE}, hole = {p, 3 * PAGE}, middle = {p + PAGE + 8, 100},
                 far = {(void *)-4096L, 8}, null = {NULL, 8};
    SHOW(vm(0, self, &whole, 1, &hole, 1, 0)), SHOW(vm(0, self, &whole, 1, &middle, 1, 0)),
        SHOW(vm(0, self, &whole, 1, &far, 1, 0)), SHOW(vm(0, self, &whole, 1, &null, 1, 0));
    SHOW(vm(0, self, &null, 1, &hole, 1, 0)), SHOW(vm(0, self, &middle, 1, &hole, 1, 0)),
        SHOW(vm(1, self, &whole, 1, &hole, 1, 0)), SHOW(vm(1, self, &middle, 1, &hole, 1, 0));
    MUST(mprotect(p + PAGE, PAGE, PROT_READ));
    SHOW(vm(0, self, &whole, 1, &hole, 1, 0)), SHOW(vm(1, self, &whole, 1, &hole, 1, 0));
    whole.iov_len = -1;
    SHOW(vm(0, self, &whole, 1, &hole, 1, 0));
    whole.iov_len = 3 * PAGE, hole.iov_len = -1;
    SHOW(vm(0, self, &whole, 1, &hole, 1, 0));
    SHOW(vm(0, 999999999, l, 1, r, 1, 0)), SHOW(vm(0, -1, l, 1, r, 1, 0)), SHOW(vm(0, 0, l, 1, r, 1, 0));
    struct iovec both[2] = {{to, 8}, {from, 8}};
    join(thread(by_tid, both));
    reap("the child itself", CHILD(SHOW(vm(0, getpid(), l, 3, r, 3, 0))));
    return wrong;
}
