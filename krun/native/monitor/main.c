/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor from its first instruction to the payload's, in reading order.
 *
 *  1 relocate itself            6 VM and first vCPU
 *  2 boot block                 7 say "R"; wait in the start FIFO            (first program of a container)
 *  3 first task, %fs            8 startContainer hooks
 *  4 hide descriptors           9 load the program
 *  5 signals                   10 own seccomp filter; say "O"; run
 *
 * A program that execve starts goes 1-5, 9, 6, 10: slots made before the vCPU are cheaper. A further process of a
 * container (exec) has no start FIFO: it says "R" at step 10, so that krun hears of a failure of step 9, too.
 */
#include "../view/ask.h"
#include "../process/domain.h"
#include "../process/nnp.h"
#include "../process/board.h"
#include "../process/exec.h"
#include "../machine/fdtab.h"
#include "../process/holder.h"
#include "../process/hook.h"
#include "../process/hostsig.h"
#include "../filter/jail.h"
#include "../process/inspect.h"
#include "../process/main.h"
#include "../process/process.h"
#include "../filter/seccomp.h"
#include "../process/signal.h"
#include "../process/trace.h"
#include "../process/observe.h"
#include "../machine/vdso.h"
#include "../abi/boot.h"
#include "../lib/kr_guard.h"
#include "../lib/kr_linux.h"
#include <linux/elf.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <linux/seccomp.h>
#include <linux/time_types.h>
#include <asm/prctl.h>

/* The kernel loads a static PIE without relocating it: only R_X86_64_RELATIVE entries exist (-nostdlib). */
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static void relocate(void) {
    u64 base = (u64)__ehdr_start, rela = 0, size = 0;
    for (const Elf64_Dyn *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_RELA)
            rela = d->d_un.d_ptr;
        else if (d->d_tag == DT_RELASZ)
            size = d->d_un.d_val;
    }
    Elf64_Rela *r = (Elf64_Rela *)(base + rela);
    for (u64 i = 0; i < size / sizeof *r; i++)
        if ((r[i].r_info & 0xffffffff) == R_X86_64_RELATIVE)
            *(u64 *)(base + r[i].r_offset) = base + (u64)r[i].r_addend;
    kr_guard_init();
    /* RELRO: tables of function pointers are read-only from here on. */
    const struct elf64_hdr *eh = (const void *)base;
    const struct elf64_phdr *ph = (const void *)(base + eh->e_phoff);
    for (u32 i = 0; i < eh->e_phnum; i++)
        if (ph[i].p_type == PT_GNU_RELRO)
            kr_sys3(__NR_mprotect, KR_PAGE_DOWN(base + ph[i].p_vaddr),
                    KR_PAGE_DOWN(base + ph[i].p_vaddr + ph[i].p_memsz) - KR_PAGE_DOWN(base + ph[i].p_vaddr),
                    PROT_READ);
}

static struct kr_task starting; /* %fs until the first task is made: making it takes the heap's lock */
static struct kr_mm first_mm;
static struct kr_proc first_proc;
static const struct kr_inspect_table inspect __attribute__((used)) = KR_INSPECT_TABLE(&first_mm);

/* Writes one message to the waiting process (docs/architecture.md, "Messages"), and closes fd. */
static void say(int *fd, char type, const char *fields, size_t len) {
    char msg[1024];
    if (*fd < 0)
        return;
    msg[0] = type;
    len = KR_MIN(len, sizeof msg - 1);
    memcpy(msg + 1, fields, len);
    kr_sys3(__NR_write, *fd, msg, len + 1);
    kr_fd_drop(fd);
}

static void say_ok(int *fd, char type) {
    char fields[1000];
    say(fd, type, fields, kr_stage_fields(fields, sizeof fields));
}

/* Reports a failure of the set-up to the waiting process. A program that execve(2) has started has none: it is past
 * the point of no return and dies of SIGSEGV (bprm_execve() in fs/exec.c). */
__noreturn static void give_up(struct kr_task *t, const char *step, const char *op, const char *path,
                               long err) {
    char fields[1000];
    int *fd = kr_boot.fd_result >= 0 && kr_boot.fd_sync < 0 ? &kr_boot.fd_result : &kr_boot.fd_sync;
    int n = kr_snprintf(fields, sizeof fields, "%s%c%s%c%s%c%ld%c", step, 0, op, 0, path, 0, -err, 0);
    kr_log("%s: %s %s: errno %ld", step, op, path, -err);
    if (*fd >= 0) {
        say(fd, 'E', fields, (size_t)KR_MIN(n, (int)sizeof fields - 1));
        kr_sys1(__NR_exit_group, 1);
    }
    if (kr_boot.flags & KR_BOOTF_FIRST) /* krun.kvm.direct: nobody waits but the reader of stderr */
        kr_die("%s: %s %s: errno %ld", step, op, path, -err);
    if (strcmp(step, "exec") != 0) { /* a program that cannot be loaded is the payload's own matter */
        char line[252];
        kr_snprintf(line, sizeof line, "%s: %s %s: errno %ld", step, op, path, -err);
        kr_board_say(line);
    }
    kr_die_signal(t, SIGSEGV);
}

/* Whether the jail is in force. Once in force it stays in force over fork and execve. */
static int jailed(void) { return kr_sys5(__NR_prctl, PR_SET_SECCOMP, ~0ULL, 0, 0, 0) != -EINVAL; }

/* A limit of the payload's (RLIMIT_DATA, RLIMIT_AS) leaves no room to begin: after an execve that is death by
 * SIGSEGV (give_up). The payload may have ignored or blocked that signal, and a core of the monitor would show
 * its boot block. */
__noreturn static void no_memory(void) {
    const struct kr_sigaction dfl = {0};
    const kr_sigset none = 0;
    kr_undumpable();
    kr_sys4(__NR_rt_sigaction, SIGSEGV, &dfl, 0, sizeof none);
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof none);
    kr_sys2(__NR_kill, kr_sys0(__NR_getpid), SIGSEGV);
    for (;;) /* pid 1 of a pid namespace does not hear it */
        kr_sys1(__NR_exit_group, 128 + SIGSEGV);
}

/* The number of the memfd with the boot block that krun passed; -1: krun did not start this monitor, or the
 * descriptor is not such a memfd. */
static int boot_fd(char **envp, u32 envc) {
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    size_t n = sizeof KR_BOOT_ENV - 1;
    const char *end;
    if (!envc || strncmp(envp[envc - 1], KR_BOOT_ENV, n) != 0 || jailed())
        return -1;
    u64 fd = kr_strtou(envp[envc - 1] + n, &end);
    if (end == envp[envc - 1] + n || *end || fd > 0x7fffffff)
        return -1;
    envp[envc - 1] = NULL; /* the payload does not see this variable */
    return (kr_sys2(__NR_fcntl, fd, F_GET_SEALS) & seals) == seals ? (int)fd : -1;
}

static int map_block(int fd) {
    long size = kr_sys3(__NR_lseek, fd, 0, SEEK_END);
    if (size < (long)sizeof(struct kr_boot_header) || size > (64 << 20))
        return -EINVAL;
    long p = kr_sys6(__NR_mmap, 0, (u64)size, PROT_READ, MAP_PRIVATE, (u64)fd, 0);
    if (p < 0)
        return (int)p;
    kr_sys1(__NR_close, fd);
    return kr_boot_parse(&kr_boot, (const u8 *)p, (size_t)size);
}

/* comm: the base name of the program, or of the script (begin_new_exec()). */
static void set_comm(const char *path) {
    const char *base = strrchr(path, '/');
    kr_sys5(__NR_prctl, PR_SET_NAME, base ? base + 1 : path, 0, 0, 0);
}

/* Opens the plug of machine/fdname.c: the link of a procfs that no path of the container leads to. The descriptor
 * or -errno. */
static int open_plug(void) {
    return (int)kr_sys4(__NR_openat, kr_boot.fd_proc, "self", O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
}

static void hide_all(struct kr_task *t) {
    int *const fixed[KR_FD_FIXED] = {[KR_FD_AT_KVM] = &kr_boot.fd_kvm,
                                     [KR_FD_AT_EXE] = &kr_boot.fd_exe,
                                     [KR_FD_AT_PROC] = &kr_boot.fd_proc,
                                     [KR_FD_AT_LOG] = &kr_boot.fd_log,
                                     [KR_FD_AT_BOARD] = &kr_boot.fd_board};
    int *const passing[] = {&kr_boot.fd_sync, &kr_boot.fd_start, &kr_boot.fd_result, &kr_boot.fd_relay};
    if (!(kr_boot.flags & KR_BOOTF_FIRST)) {
        const int kept[] = {kr_boot.fd_target, kr_boot.fd_interp};
        int ok = kr_fd_fixed_again(t, kr_boot.fd_place, kept, KR_COUNT(kept)) == 0;
        for (u32 i = 0; i < KR_FD_FIXED; i++)
            ok &= !fixed[i] || *fixed[i] == -1 || (u32)*fixed[i] == kr_fd_base() + i;
        if (!ok)
            kr_die("the boot block's descriptors are not where they belong");
        return;
    }
    int number, plug = open_plug();
    if (plug < 0)
        give_up(t, "descriptors", "open", "/proc/self", plug);
    int r = kr_fd_fix(fixed, plug, &number);
    if (r < 0) {
        char what[96];
        kr_snprintf(what, sizeof what,
                    r == -EBUSY ? "descriptor %d is krun's own: pass lower numbers to the program"
                                : "descriptor %d: raise the limit of open files (RLIMIT_NOFILE)",
                    number);
        give_up(t, "descriptors", "F_DUPFD", what, r);
    }
    for (u32 i = 0; i < KR_COUNT(passing); i++)
        if (*passing[i] >= 0)
            kr_fd_hide(*passing[i], KR_FD_EXEC_DROPS, passing[i]);
}

static void make_vm(struct kr_task *t) {
    const char *why = "";
    int r = kr_vm_create(&t->mm->vm, kr_boot.fd_kvm, 0, &why);
    if (r < 0)
        give_up(t, "vm", why, "/dev/kvm", r);
    kr_stage("vm");
    t->vcpu = kr_vcpu_get(&t->mm->vm, t);
    if (!t->vcpu)
        give_up(t, "vm", "KVM_CREATE_VCPU", "/dev/kvm", -ENOMEM);
    t->run = t->vcpu->run;
    kr_stage("vcpu");
}

static void wait_for_start(struct kr_task *t) {
    if (kr_boot.fd_start < 0)
        return;
    long r = kr_start_wait(t, kr_boot.fd_start);
    if (r > 0)
        kr_die_signal(t, (int)r);
    if (r < 0)
        give_up(t, "start", "read", "start.fifo", r);
    kr_stage("started");
    kr_fd_drop(&kr_boot.fd_start);
}

/* A first program that execve(2) would refuse, or that would die in it (begun), is the payload's failure and not krun's: start and
 * exec succeed, and the process ends as runc's init does, so that logs, exit codes and restart policies are those of runc. */
__noreturn static void unfit(struct kr_task *t, const struct kr_program *p, const char *why, long err,
                             int begun) {
    if (!(kr_boot.flags & KR_BOOTF_FIRST) || (kr_boot.fd_sync < 0 && kr_boot.fd_result < 0))
        give_up(t, "exec", why, kr_boot.exe_path, err);
    kr_log("exec: %s %s: errno %ld", why, kr_boot.exe_path, -err);
    say_ok(&kr_boot.fd_sync, 'R');
    say_ok(&kr_boot.fd_result, 'O');
    kr_unfit_say(kr_boot.exe_path, p, why, -err);
    if (begun)
        kr_die_signal(t, SIGSEGV);
    for (;;)
        kr_sys1(__NR_exit_group, 1);
}

/* Finds the first program, which may be a script, and gives argv its final form. */
static void find_first(struct kr_task *t, struct kr_program *p, char ***argv) {
    const char *why;
    long r = kr_program_find(t, AT_FDCWD, kr_boot.exe_path, 0, p, &why);
    if (r < 0)
        unfit(t, p, why, r, 0);
    if (!p->nwords)
        return;
    u32 argc = 0;
    while ((*argv)[argc])
        argc++;
    char **v = kr_alloc((argc + p->nwords + 2) * sizeof *v);
    if (!v)
        give_up(t, "exec", "memory for arguments", kr_boot.exe_path, -ENOMEM);
    memcpy(v, p->words, p->nwords * sizeof *v);
    if (argc)
        memcpy(v + p->nwords, *argv + 1, (argc - 1) * sizeof *v);
    *argv = v;
}

void kr_publish_mm(struct kr_mm *mm) {
    struct prctl_mm_map m = {.start_code = mm->code_start,
                             .end_code = mm->code_end,
                             .start_data = mm->data_start,
                             .end_data = mm->data_end,
                             .start_brk = mm->brk_start,
                             .brk = mm->brk_end,
                             .start_stack = mm->stack_end - 8,
                             .arg_start = mm->arg_start,
                             .arg_end = mm->arg_end,
                             .env_start = mm->env_start,
                             .env_end = mm->env_end,
                             .auxv = (void *)mm->auxv_addr,
                             .auxv_size = mm->auxv_size,
                             .exe_fd = (u32)-1};
    if (m.end_code <= m.start_code)
        m.end_code = m.start_code + 1; /* the kernel refuses an empty text (validate_prctl_map_addr()) */
    if (!m.start_data || m.end_data < m.start_data) {
        m.start_data = m.start_code;
        m.end_data = m.end_code;
    }
    long r = kr_sys5(__NR_prctl, PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 0);
    if (r < 0)
        kr_log("PR_SET_MM_MAP: errno %ld: /proc/PID/cmdline shows the monitor's copy", -r);
}

/* Steps 1 to 3: the first task, whom %fs names. */
static struct kr_task *first_task(void) {
    struct kr_task *t = kr_task_new(&first_proc);
    if (!t)
        no_memory();
    first_proc.mm = t->mm = &first_mm;
    first_proc.refs = 1;
    first_proc.exe_fd = -1;
    first_mm.tasks = t;
    kr_sys2(__NR_arch_prctl, ARCH_SET_FS, t);
    t->tid = (u32)kr_sys0(__NR_gettid);
    return t;
}

/* Step 2: kr_boot, and what the process takes from it. */
static void read_boot_block(char **envp, u32 envc) {
    size_t size, room;
    u8 *block = kr_boot_decode(envp, envc, &size, &room); /* a block from a monitor */
    int fd = block ? -1 : boot_fd(envp, envc);            /* a block from krun itself */
    if ((block ? kr_boot_parse(&kr_boot, block, size) < 0 : fd < 0 || map_block(fd) < 0) ||
        (block == NULL) != ((kr_boot.flags & KR_BOOTF_FIRST) != 0)) { /* only krun starts a first program */
        if (jailed())
            no_memory();
        kr_die("started without a boot block: this program is run by krun, not by hand");
    }
    first_proc.flags =
        (u32)kr_boot.flags & (KR_BOOTF_TRACE | KR_BOOTF_COUNT | KR_BOOTF_LOCAL | KR_BOOTF_RANDOM |
                              KR_BOOTF_SOCKETS | KR_BOOTF_BOUND | KR_BOOTF_NOTIFY | KR_PROCF_USERNS |
                              KR_PROCF_NESTED | KR_PROCF_IDS_CHANGED | KR_PROCF_RECORD_LOCKS);
    first_proc.t0 = kr_boot.t0;
    first_proc.nofile_hard = kr_boot.nofile_hard;
    kr_trace_on = first_proc.flags & (KR_BOOTF_TRACE | KR_BOOTF_COUNT);
}

/* What the block says of SIGSEGV and SIGBUS in the program before. */
static const struct kr_fault_signals *faults_before(struct kr_fault_signals *f) {
    size_t pos = 0;
    u32 len;
    const void *data = kr_boot_next(&kr_boot, KR_BOOT_FAULTS, &pos, &len);
    memset(f, 0, sizeof *f);
    if (data && len == sizeof *f)
        memcpy(f, data, sizeof *f);
    return f;
}

/* Steps 4 and 5. */
static void settle(struct kr_task *t, const u64 *auxv) {
    const char *why = "";
    int r = kr_layout_check(auxv, &why);
    if (r < 0)
        give_up(t, "layout", "placing", why, r);
    kr_exec_load_ids();
    t->persona = (u32)kr_boot.personality & KR_PERSONA_OWN;
    r = kr_domain_load(t);
    if (r < 0)
        give_up(t, "exec", "reading", "the landlock domains of the boot block", r);
    kr_layout_restore_stack();
    hide_all(t);
    kr_holder_learn(t);
    r = kr_exec_ready();
    if (r < 0)
        give_up(t, "exec", "finding", "the monitor's file", r);
    struct kr_fault_signals faults;
    kr_signal_init(t, kr_boot.flags & KR_BOOTF_FIRST ? NULL : faults_before(&faults));
    kr_ask_clock();
    kr_board_open(t);
    kr_observe_load(t);
    kr_faults_hold(0);
    if (kr_sys0(__NR_getuid) != kr_sys0(__NR_geteuid) ||
        kr_sys0(__NR_getgid) != kr_sys0(__NR_getegid)) /* begin_new_exec() in the kernel */
        first_proc.flags |= KR_PROCF_UNDUMPABLE;
}

/* The payload's filters, the answer of CPUID and the rate of the clock, which the block hands on; the tables of the VM. */
static void take_over(struct kr_task *t) {
    size_t pos = 0;
    u32 len;
    const void *data;
    const char *why = "";
    /* The oldest filter is the profile. */
    u32 listener = kr_boot.flags & KR_BOOTF_NOTIFY ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    for (; (data = kr_boot_next(&kr_boot, KR_BOOT_SECCOMP, &pos, &len)); listener = 0)
        if (kr_seccomp_add(t, data, len / 8, listener) < 0)
            give_up(t, "seccomp", "checking the filter", "linux.seccomp", -EINVAL);
    pos = 0;
    data = kr_boot_next(&kr_boot, KR_BOOT_CPUID, &pos, &len);
    if (data)
        kr_vm_set_cpuid(data, len);
    pos = 0;
    data = kr_boot_next(&kr_boot, KR_BOOT_CLOCK, &pos, &len);
    if (data && len == sizeof(struct kr_vdso_rate)) {
        struct kr_vdso_rate rate;
        memcpy(&rate, data, sizeof rate);
        kr_vdso_set_rate(&rate);
    }
    first_mm.vm.local = (first_proc.flags & KR_BOOTF_LOCAL) != 0;
    int r = kr_vm_create(&first_mm.vm, -1, 1, &why);
    if (r < 0)
        give_up(t, "vm", why, "monitor", r);
    first_mm.vm.entry = (u32)kr_boot.vm_type;
    kr_window_begin(&first_mm.window);
    kr_mm_layout(&first_mm);
}

/* Steps 6 to 8 of a first program. */
static void wait_as_first(struct kr_task *t) {
    static char text[512];
    /* Made before the vCPU, because it is needed anyway: the stack's top, the vDSO, ELF interpreter and libraries. */
    u64 top = KR_MIN((first_mm.stack_end | (KR_CHUNK_SIZE - 1)) + 1, KR_WINDOW_END);
    kr_vm_cover(&first_mm.vm, top - KR_CHUNK_SIZE / 4, top);
    make_vm(t);
    if (kr_boot.fd_start < 0)
        return;
    say_ok(&kr_boot.fd_sync, 'R');
    wait_for_start(t);
    long e = kr_hooks_run(t, text, sizeof text);
    if (e != 0) /* the line says it all of a hook that has failed, or has taken too long */
        give_up(t, "startContainer hook", text, "", e > 0 || e == -ETIMEDOUT ? 0 : e);
}

#define WORKER_TRIES 100
#define WORKER_PAUSE_NS 10000000

static int is_deadline(void) {
    struct sched_attr a;
    return kr_sys4(__NR_sched_getattr, 0, (u64)&a, sizeof a, 0) >= 0 && a.sched_policy == SCHED_DEADLINE;
}

/* KVM starts its worker thread in the first KVM_RUN of a VM, with EAGAIN at a limit of threads. The run loop waits
 * for room without end, because a fork cannot fail any more there. A first program is still to begin: the limit may
 * be too small for ever, so krun hears of it after one second. With immediate_exit no instruction of the guest runs. */
static void start_worker(struct kr_task *t) {
    struct __kernel_timespec pause = {0, WORKER_PAUSE_NS};
    long r;
    for (u32 tries = 0;; tries++) {
        t->run->kvm_dirty_regs |= KVM_SYNC_X86_REGS;
        t->run->immediate_exit = 1;
        r = kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
        t->run->immediate_exit = 0;
        /* A signal is the run loop's, and so is SCHED_DEADLINE, whose threads make none. */
        if (r != -EAGAIN || t->sig_caught || is_deadline())
            return;
        if (tries == WORKER_TRIES)
            give_up(t, "vm", "start",
                    "KVM's worker thread: raise the limit of processes (linux.resources.pids, RLIMIT_NPROC)",
                    r);
        kr_sys2(__NR_nanosleep, &pause, 0);
    }
}

/* Step 9, and 6 of a program that execve starts. */
static void load(struct kr_task *t, char **argv, char **envp, const u64 *auxv, int first) {
    const char *why = "";
    struct kr_program p = {
        .fd = kr_boot.fd_target, .interp = kr_boot.fd_interp, .path = (char *)kr_boot.exe_path};
    if (p.fd < 0)
        find_first(t, &p, &argv);
    struct kr_start start;
    long e = kr_load(&first_mm, &p, argv, envp, auxv, &start, &why);
    if (e < 0)
        unfit(t, &p, why, e, 1);
    kr_stage("loaded");
    kr_slot_free(p.interp);
    kr_fd_hide(p.fd, KR_FD_EXEC_DROPS, &first_proc.exe_fd);
    first_proc.exe_path = p.path;
    if (!first)
        make_vm(t);
    set_comm(p.nwords ? p.words[p.nwords - 1] : p.path);
    kr_publish_mm(&first_mm);
    kr_regs(t)->rip = start.entry;
    kr_regs(t)->rsp = start.sp;
}

__attribute__((used, noreturn)) void kr_main(u64 *sp) {
    relocate();
    kr_sys2(__NR_arch_prctl, ARCH_SET_FS, &starting);
    u64 argc = sp[0];
    char **argv = (char **)(sp + 1), **envp = argv + argc + 1;
    u32 envc = 0;
    while (envp[envc])
        envc++;
    const u64 *auxv = (const u64 *)(envp + envc + 1);

    struct kr_task *t = first_task();
    kr_undumpable();
    read_boot_block(envp, envc);
    set_comm(kr_boot.exe_path); /* set early, because other processes see it */
    kr_stage("monitor");
    settle(t, auxv);
    take_over(t);
    int first = (kr_boot.flags & KR_BOOTF_FIRST) != 0;
    if (first)
        wait_as_first(t);
    load(t, argv, envp, auxv, first);
    if (first)
        start_worker(t);
    const char *why = "";
    int r = kr_jail_install(t, &why); /* without the filters nothing of the image runs */
    if (r < 0)
        give_up(t, "jail", why, "krun-monitor", r);
    kr_board_update(t); /* no_new_privs is known now */
    if (first) {
        kr_stage("run");
        say_ok(&kr_boot.fd_sync, 'R');
        say_ok(&kr_boot.fd_result, 'O');
    }
    kr_run(t);
}
