/* SPDX-License-Identifier: Apache-2.0
 * Hosted stand-ins: the calls of lib/syscall.S without their signal rules, and the ways out, which end the
 * test. */
#include "harness.h"
#include "process/ns.h"
#include "view/ask.h"
#include "lib/above.h"
#include "process/board.h"
#include "machine/fdtab.h"
#include "machine/mm.h"
#include "machine/root.h"
#include "machine/site.h"
#include "process/above.h"
#include "process/main.h"
#include "process/process.h"
#include "sys/memfile.h"
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <stdarg.h>

int kr_test_failures;
__thread u64 kr_test_holder = 1 << 24;
static struct kr_task nobody;
__thread struct kr_task *kr_test_self = &nobody;

/* No holder of a lock dies. */
__attribute__((weak)) void kr_holder_goad(u64 word, u32 waits) { (void)word, (void)waits; }
__attribute__((weak)) int kr_holder_gone(u64 word) {
    (void)word;
    return 0;
}
__attribute__((weak)) void kr_state_heir(struct kr_lock *l) { (void)l; }

/* No sockets are completed inside the guest. */
__attribute__((weak)) void kr_sockets_named(struct kr_task *t, u64 fd, const u64 a[6]) {
    (void)t, (void)fd, (void)a;
}
__attribute__((weak)) void kr_sockets_passed(struct kr_task *t, u64 fd) { (void)t, (void)fd; }
__attribute__((weak)) void kr_sockets_copied(struct kr_task *t, u64 fd) { (void)t, (void)fd; }
__attribute__((weak)) void kr_sockets_forget(struct kr_task *t) { (void)t; }
__attribute__((weak)) void kr_sockets_clone(struct kr_task *t, int begins) { (void)t, (void)begins; }
__attribute__((weak)) void kr_sockets_ready(struct kr_task *t, s32 fd, u32 events) {
    (void)t, (void)fd, (void)events;
}
__attribute__((weak)) int kr_sockets_fails(struct kr_task *t, u64 fd, const u64 a[6], long *ret) {
    return (void)t, (void)fd, (void)a, (void)ret, 0;
}
__attribute__((weak)) void kr_file_path(struct kr_task *t, const char *path) { (void)t, (void)path; }
__attribute__((weak)) int kr_queue_is_timer(const struct kr_task *t, u64 id) { return (void)t, (void)id, 0; }

__attribute__((weak)) struct kr_boot kr_boot = {.fd_kvm = -1,
                                                .fd_exe = -1,
                                                .fd_proc = -1,
                                                .fd_sync = -1,
                                                .fd_start = -1,
                                                .fd_result = -1,
                                                .fd_target = -1,
                                                .fd_interp = -1,
                                                .fd_log = -1,
                                                .fd_board = -1};

/* No site is patched. */
__attribute__((weak)) int kr_sites_undo(struct kr_mm *mm, u64 start, u64 end) {
    return (void)mm, (void)start, (void)end, 0;
}
__attribute__((weak)) void kr_sites_heir(struct kr_mm *mm) { (void)mm; }
__attribute__((weak)) int kr_sites_make_room(struct kr_mm *mm, u64 start, u64 end) {
    return (void)mm, (void)start, (void)end, 0;
}
__attribute__((weak)) void kr_sites_forget(struct kr_mm *mm, u64 start, u64 end) {
    (void)mm, (void)start, (void)end;
}
__attribute__((weak)) void kr_sites_original(const struct kr_mm *mm, u64 addr, void *buf, u64 n) {
    (void)mm, (void)addr, (void)buf, (void)n;
}
__attribute__((weak)) int kr_sites_any(const struct kr_mm *mm, u64 addr, u64 n) {
    return (void)mm, (void)addr, (void)n, 0;
}
__attribute__((weak)) int kr_site_edge(const struct kr_mm *mm, u64 addr) { return (void)mm, (void)addr, 0; }
__attribute__((weak)) int kr_root_make(struct kr_vm *vm, u32 idx) { return (void)vm, (void)idx, 0; }
__attribute__((weak)) void kr_root_linked(struct kr_vm *vm, u64 gva, u64 entry) {
    (void)vm, (void)gva, (void)entry;
}

__attribute__((weak)) long kr_call_intr(long nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    return kr_sys6(nr, a, b, c, d, e, f);
}

__attribute__((weak)) long kr_call_alone(struct kr_task *t, long nr, const u64 a[6]) {
    (void)t;
    return kr_call_intr(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

__attribute__((weak)) long kr_call_from(struct kr_task *t, int cwd, long nr, const u64 a[6]) {
    (void)t, (void)cwd;
    return kr_call_intr(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
__attribute__((weak)) long kr_fd_call(u64 fd, long nr, u64 a, u64 b) {
    return kr_call_intr(nr, fd, a, b, 0, 0, 0);
}
__attribute__((weak)) u32 kr_fd_base(void) { return 1u << 20; }
__attribute__((weak)) u32 kr_fd_plugs;
__attribute__((weak)) void kr_fd_drop_plugs(struct kr_task *t) { (void)t; }
__attribute__((weak)) long kr_life_tid_address(struct kr_task *t, u64 *addr) {
    *addr = t->clear_tid;
    return kr_call_intr(__NR_prctl, PR_GET_TID_ADDRESS, 0, 0, 0, 0, 0);
}

__attribute__((weak)) long kr_private(struct kr_task *t, long (*fn)(void *), void *arg) {
    (void)t;
    return fn(arg);
}
__attribute__((weak)) int kr_children_elsewhere(void) { return 0; }
__attribute__((weak)) void kr_close_aside(struct kr_task *t, int fd, void (*fn)(void *), void *arg) {
    (void)t, (void)fd;
    fn(arg);
}

__attribute__((weak)) long kr_alone(struct kr_task *t, long (*fn)(void *), void *arg) {
    (void)t;
    return fn(arg);
}
__attribute__((weak)) void kr_bury(struct kr_task *t, int short_of) { (void)t, (void)short_of; }
__attribute__((weak)) long kr_walk_real(struct kr_task *t, int dirfd, const char *path, int follow) {
    (void)t, (void)dirfd, (void)path, (void)follow;
    return 0;
}
__attribute__((weak)) int kr_ns_left(struct kr_proc *p) {
    (void)p;
    return 0;
}
/* Nobody else is here to be asked. */
__attribute__((weak)) long kr_ask_link(struct kr_task *t, const struct kr_proc_name *w, u32 *mode) {
    (void)t, (void)w, (void)mode;
    return -ESRCH;
}
__attribute__((weak)) long kr_ask_text(struct kr_task *t, const struct kr_proc_name *w) {
    (void)t, (void)w;
    return -ESRCH;
}
__attribute__((weak)) long kr_ask_fds(struct kr_task *t, u32 pid, enum kr_proc_entry of, u32 **fds, u32 *n,
                                      size_t *size) {
    (void)t, (void)pid, (void)of, (void)fds, (void)n, (void)size;
    return -ESRCH;
}
__attribute__((weak)) long kr_ask_known(struct kr_task *t, u32 pid, struct kr_board_entry *out) {
    (void)t, (void)pid, (void)out;
    return -ESRCH;
}
__attribute__((weak)) void kr_ask_serve(struct kr_task *t) { t->asked = 0; }
__attribute__((weak)) int kr_ask_goes_on(struct kr_task *t, long done) {
    int on =
        t->was_asked && !t->sig_caught && t->asked == KR_ASKED_QUESTION && (done > 0 || done == -KR_ERESTART);
    if (on)
        kr_ask_serve(t);
    return on;
}
__attribute__((weak)) void kr_ask_adjust(struct kr_task *t, u64 nr, u64 a[6]) { (void)t, (void)nr, (void)a; }
__attribute__((weak)) int kr_dumpable_view(struct kr_task *t) {
    return !(t->proc->flags & KR_PROCF_UNDUMPABLE);
}
__attribute__((weak)) void kr_common_change(struct kr_task *t, u32 clear, u32 set) {
    t->proc->flags = (t->proc->flags & ~clear) | set;
}
__attribute__((weak)) int kr_dir_kind(struct kr_task *t, int fd, u32 *pid) {
    (void)t, (void)fd, (void)pid;
    return KR_DIR_PLAIN;
}
__attribute__((weak)) void kr_vm_heir(struct kr_vm *vm, const struct kr_task *tasks) {
    (void)vm, (void)tasks;
}
__attribute__((weak)) void kr_local_changed(struct kr_task *t) { (void)t; }
__attribute__((weak)) void kr_board_update(struct kr_task *t) { (void)t; }

struct iov {
    u64 base, len;
};

/* Through the kernel, so that a bad address is -EFAULT. */
static long copy(int nr, u64 local, u64 remote, size_t n) {
    struct iov l = {local, n}, r = {remote, n};
    if (!n)
        return 0;
    long got = kr_sys6(nr, (u64)kr_sys0(__NR_getpid), (u64)&l, 1, (u64)&r, 1, 0);
    return got == (long)n ? 0 : -EFAULT;
}

long kr_copy_raw(void *dst, const void *src, size_t n) {
    if ((u64)src < KR_WINDOW_END)
        return copy(__NR_process_vm_readv, (u64)dst, (u64)src, n);
    return copy(__NR_process_vm_writev, (u64)src, (u64)dst, n);
}

long kr_copy_str_raw(char *dst, const char *src, size_t max) {
    for (size_t i = 0; i < max; i++) {
        if (kr_copy_raw(dst + i, src + i, 1) < 0)
            return -EFAULT;
        if (!dst[i])
            return (long)i;
    }
    return (long)max;
}

__attribute__((weak)) void kr_die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n(kr_die)\n");
    abort();
}

__attribute__((weak)) void kr_undumpable(void) {}
__attribute__((weak)) void kr_holder_learn(struct kr_task *t) { (void)t; }
__attribute__((weak)) void kr_log(const char *fmt, ...) { (void)fmt; }

__attribute__((weak)) void kr_task_exit(struct kr_task *t, int code) {
    kr_die("kr_task_exit(%p, %d)", (void *)t, code);
}

__attribute__((weak)) u32 kr_memfiles;
__attribute__((weak)) long kr_memfile_open(struct kr_task *t, int dirfd, const char *path,
                                           const struct open_how *asked) {
    (void)t, (void)dirfd, (void)path, (void)asked;
    return -EACCES;
}
__attribute__((weak)) long kr_memfile_call(struct kr_task *t, u64 nr, const u64 a[6]) {
    (void)t, (void)nr, (void)a;
    return -EBADF;
}
__attribute__((weak)) long kr_owned_open(struct kr_task *t, int fd, const struct statx *sx, u64 flags) {
    (void)t, (void)fd, (void)sx, (void)flags;
    return -EACCES;
}
__attribute__((weak)) void kr_observe_signal(struct kr_task *t, const siginfo_t *si) { (void)t, (void)si; }
__attribute__((weak)) void kr_die_signal(struct kr_task *t, int sig) {
    kr_die("kr_die_signal(%p, %d)", (void *)t, sig);
}

static u64 seed = 1, state;

u64 kr_test_random(void) {
    if (!state)
        state = seed * 0x9e3779b97f4a7c15ULL | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dULL >> 11;
}

u64 kr_test_below(u64 n) { return kr_test_random() % n; }

void *kr_test_window(size_t size) {
    static u64 next = 0x200000000000ULL; /* above the shadow of the address sanitizer */
    size = KR_PAGE_UP(size);
    long p = kr_sys6(__NR_mmap, next, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (u64)-1, 0);
    if (p < 0)
        kr_die("no window memory: %ld", p);
    next += size + KR_PAGE;
    return (void *)p;
}

struct kr_task *kr_test_task(void) {
    static struct kr_task *made; /* all of them: not leaks */
    struct kr_task *t = calloc(1, sizeof *t);
    t->next = made;
    made = t;
    t->proc = calloc(1, sizeof *t->proc);
    t->mm = t->proc->mm = calloc(1, sizeof(struct kr_mm));
    t->run = calloc(1, sizeof *t->run);
    t->self = t;
    t->proc->refs = 1;
    t->proc->exe_fd = -1;
    t->tid = (u32)kr_sys0(__NR_gettid);
    t->nr = ~0ULL;
    return t;
}

void kr_test_boot(void) {
    kr_boot.fd_proc = (int)kr_sys3(__NR_open, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    kr_boot.fd_exe = (int)kr_sys3(__NR_open, "/proc/self/exe", O_RDONLY | O_CLOEXEC, 0);
}

int main(int argc, char **argv) {
    const char *s = argc > 1 ? argv[1] : getenv("KR_TEST_SEED");
    if (s)
        seed = strtoull(s, NULL, 0);
    test_main();
    if (kr_test_failures)
        printf("%d failure(s); seed %llu\n", kr_test_failures, (unsigned long long)seed);
    return kr_test_failures != 0;
}
