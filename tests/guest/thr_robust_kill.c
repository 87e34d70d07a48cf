// A process killed while it holds robust futexes: marked in shared memory, alone, with threads, after vfork:
// set_robust_list(2).
#include "guest.h"
#include <linux/futex.h>
struct lock {
    struct robust_list entry;
    unsigned word;
};
static struct lock *l; // shared
static struct robust_list_head head;
static void enlist(void) {
    head.list.next = &head.list;
    head.futex_offset = offsetof(struct lock, word), head.list_op_pending = NULL;
    MUST(syscall(SYS_set_robust_list, &head, sizeof head));
}
static void hold(int n) { // as a C library does it, n locks
    for (int i = 0; i < n; i++)
        l[i].word = gettid(), l[i].entry.next = head.list.next, head.list.next = &l[i].entry;
}
static int ready[2];
static void stay(void) {
    write(ready[1], "r", 1);
    for (;;)
        pause();
}
static void *sleeps(void *a) {
    for (;;)
        pause();
}
static void *holds(void *a) {
    enlist(), hold(2), stay();
    return NULL;
}
static void *holds_and_tells(void *a) {
    enlist(), hold(2), write(((int *)a)[1], "", 1);
    return sleeps(NULL);
}
static void child_exits(void) {
    pid_t p = vfork();
    if (!p)
        _exit(3);
    int status;
    MUST(waitpid(p, &status, 0));
}
static void killed(const char *what, pid_t p) { // once it holds them
    char c;
    MUST(read(ready[0], &c, 1));
    for (int i = 0; i < 3; i++)
        if (l[i].word == 0)
            l[i].word = 7;
    kill(p, SIGKILL);
    reap(what, p);
    for (int i = 0; i < 3; i++)
        say("lock %d: %s", i,
            l[i].word == FUTEX_OWNER_DIED ? "owner died"
            : l[i].word == 7              ? "never held"
                                          : "left alone");
    memset(l, 0, 3 * sizeof *l);
}
int main(int argc, char **argv) {
    l = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    MUST(pipe(ready));
    killed("alone", CHILD(enlist(); hold(2); stay()));
    killed("one", CHILD(enlist(); hold(1); stay()));
    killed("after vfork", CHILD(enlist(); hold(2); child_exits(); stay()));
    killed("with a thread", CHILD(enlist(); hold(2); thread(sleeps, NULL); stay()));
    killed("held by a thread", CHILD(thread(holds, NULL); for (;;) pause()));
    killed("with a thread, after vfork",
           CHILD(enlist(); hold(2); thread(sleeps, NULL); child_exits(); stay()));
    killed("held by a thread, after vfork", CHILD({
               int held[2];
               MUST(pipe(held));
               thread(holds_and_tells, held);
               read(held[0], held + 1, 1);
               child_exits(), child_exits(), stay();
           }));
    killed("pending only", CHILD({
               enlist(), hold(0);
               l[1].word = gettid(), head.list_op_pending = &l[1].entry;
               stay();
           }));
    killed("taken back",
           CHILD(enlist(); hold(2); MUST(syscall(SYS_set_robust_list, NULL, sizeof head)); stay()));
    enlist();
    void *at = NULL;
    size_t size = 0;
    TRY(syscall(SYS_get_robust_list, 0, &at, &size)), say("mine %d, size %zu", at == &head, size);
    thread(sleeps, NULL);
    TRY(syscall(SYS_get_robust_list, gettid(), &at, &size)), say("mine %d", at == &head);
    TRY(syscall(SYS_get_robust_list, 0x7ffffff, &at, &size)),
        TRY(syscall(SYS_get_robust_list, 0, (void *)16, &size));
    TRY(syscall(SYS_set_robust_list, &head, 23));
    reap("fork has none", CHILD(MUST(syscall(SYS_get_robust_list, 0, &at, &size));
                                say("the child's is %s", at == &head ? "the parent's" : "its own or none")));
    return wrong;
}
