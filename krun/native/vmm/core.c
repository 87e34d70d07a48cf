/* SPDX-License-Identifier: Apache-2.0
 *
 * The core file: ELF header, notes (registers of every thread, auxv, mapped files), then the memory that the
 * kernel's default filter would dump. Layout as fs/binfmt_elf.c writes it, so that gdb needs no help.
 *
 * State: mm->dumping, mm->parked (threads that stand still). The dumping thread is the only one that runs; no
 * lock is needed after that.
 */
#include "core.h"
#include "hostmem.h"
#include "mm.h"
#include "usercopy.h"
#include "x86.h"
#include <asm/signal.h>
#include <linux/elf.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/resource.h>

#define O_NOFOLLOW_FLAG 0400000
#define NOTE_NAME "CORE"
#define NT_X86_XSTATE_ 0x202
/* struct elf_prstatus and elf_prpsinfo of x86-64 (linux/elfcore.h is not for freestanding use). */
struct prstatus {
    s32 signo, code, err;
    u16 cursig, pad;
    u64 sigpend, sighold;
    s32 pid, ppid, pgrp, sid;
    u64 times[8];
    u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, rflags,
        rsp, ss, fs_base, gs_base, ds, es, fs, gs;
    s32 fpvalid, pad2;
};
struct prpsinfo {
    char state, sname, zomb, nice;
    u32 pad;
    u64 flag;
    u32 uid, gid;
    s32 pid, ppid, pgrp, sid;
    char fname[16], args[80];
};
_Static_assert(sizeof(struct prstatus) == 336 && sizeof(struct prpsinfo) == 136,
               "elf_prstatus, elf_prpsinfo are ABI");

struct buffer {
    u8 *p;
    size_t n, room;
};

static void add(struct buffer *b, const void *data, size_t n) {
    if (b->n + n > b->room) {
        size_t room = KR_MAX(b->room * 2, b->n + n + 4096);
        u8 *p = kr_realloc(b->p, b->room, room);
        if (!p)
            return;
        b->p = p;
        b->room = room;
    }
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

static void note(struct buffer *b, const char *name, u32 type, const void *data, size_t n) {
    static const u8 zero[8];
    struct elf64_note h = {(u32)strlen(name) + 1, (u32)n, type};
    add(b, &h, sizeof h);
    add(b, name, h.n_namesz);
    add(b, zero, -h.n_namesz & 3);
    add(b, data, n);
    add(b, zero, -n & 3);
}

static void thread_notes(struct buffer *b, struct kr_task *t, int sig) {
    const struct kvm_regs *r = kr_regs(t);
    const struct kvm_sregs *s = &t->run->s.regs.sregs;
    struct prstatus ps = {.signo = sig,
                          .cursig = (u16)sig,
                          .sighold = t->sigmask,
                          .pid = (s32)t->tid,
                          .ppid = (s32)kr_sys0(__NR_getppid),
                          .pgrp = (s32)kr_sys0(__NR_getpgrp),
                          .sid = (s32)kr_sys1(__NR_getsid, 0),
                          .r15 = r->r15,
                          .r14 = r->r14,
                          .r13 = r->r13,
                          .r12 = r->r12,
                          .rbp = r->rbp,
                          .rbx = r->rbx,
                          .r11 = r->r11,
                          .r10 = r->r10,
                          .r9 = r->r9,
                          .r8 = r->r8,
                          .rax = r->rax,
                          .rcx = r->rcx,
                          .rdx = r->rdx,
                          .rsi = r->rsi,
                          .rdi = r->rdi,
                          .orig_rax = t->nr,
                          .rip = r->rip,
                          .cs = KR_USER_CS,
                          .rflags = r->rflags,
                          .rsp = r->rsp,
                          .ss = KR_USER_SS,
                          .fs_base = s->fs.base,
                          .gs_base = s->gs.base,
                          .fpvalid = 1};
    note(b, NOTE_NAME, NT_PRSTATUS, &ps, sizeof ps);
    u8 *x = kr_task_xsave(t);
    struct kr_vm *vm = &t->mm->vm;
    if (x && (!t->vcpu || kr_vcpu_get_xsave(vm, t->vcpu, x) == 0)) {
        note(b, NOTE_NAME, NT_PRFPREG, x, 512);
        memcpy(x + 464, &vm->xcr0, 8); /* where gdb looks for XCR0 */
        note(b, "LINUX", NT_X86_XSTATE_, x, vm->xsave_size);
    }
}

static u64 hex(const char **s) {
    u64 v = 0;
    for (;; ++*s) {
        char c = **s;
        if (c >= '0' && c <= '9')
            v = v * 16 + (u64)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (u64)(c - 'a') + 10;
        else
            return v;
    }
}

/* NT_FILE from the monitor's own maps: below KR_WINDOW_END they are the payload's. */
static void file_note(struct buffer *b) {
    struct buffer maps = {0}, table = {0}, names = {0};
    u64 head[2] = {0, KR_PAGE};
    long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, "self/maps", 0, 0), n;
    if (fd < 0)
        return;
    u8 *chunk = kr_alloc(16384);
    while (chunk && (n = kr_sys3(__NR_read, fd, chunk, 16384)) > 0)
        add(&maps, chunk, (size_t)n);
    kr_free(chunk, 16384);
    kr_sys1(__NR_close, fd);
    add(&maps, "", 1);
    for (const char *p = (const char *)maps.p; p && *p;) {
        const char *end = strchr(p, '\n');
        if (!end)
            break;
        u64 e[3];
        e[0] = hex(&p);
        p++;
        e[1] = hex(&p);
        p += 6; /* " rwxp " */
        e[2] = hex(&p) / KR_PAGE;
        const char *path = p;
        while (path < end && *path != '/')
            path++;
        if (e[0] < KR_WINDOW_END && path < end) {
            add(&table, e, sizeof e);
            add(&names, path, (size_t)(end - path));
            add(&names, "", 1);
            head[0]++;
        }
        p = end + 1;
    }
    struct buffer all = {0};
    add(&all, head, sizeof head);
    add(&all, table.p, table.n);
    add(&all, names.p, names.n);
    note(b, NOTE_NAME, NT_FILE, all.p, all.n);
}

/* How much of a mapping the default filter (0x33) dumps. */
static u64 dump_size(const struct kr_vma *v) {
    if (!(v->prot & PROT_READ) || (v->flags & KR_VMA_VDSO))
        return v->flags & KR_VMA_VDSO ? v->end - v->start : 0;
    /* Private and no code: may have been written (RELRO was, before it became read-only). */
    if ((v->flags & KR_VMA_ANON) || (!(v->prot & PROT_EXEC) && !(v->flags & KR_VMA_SHARED)))
        return v->end - v->start;
    char magic[4];
    if (kr_copy_in(magic, v->start, 4) == 0 && memcmp(magic, "\177ELF", 4) == 0)
        return KR_PAGE;
    return 0;
}

/* Writes [start, start+len) at the file position; untouched and unreadable pages become holes. 0 or -errno.
 */
static long write_memory(int fd, u64 start, u64 len) {
    u8 resident[256];
    while (len) {
        u64 n = KR_MIN(len, sizeof resident * KR_PAGE);
        if (kr_host_mincore(start, n, resident) < 0)
            memset(resident, 0, sizeof resident);
        for (u64 i = 0; i < n / KR_PAGE; i++) {
            long r = -EFAULT;
            if (resident[i] & 1)
                r = kr_sys3(__NR_write, fd, start + i * KR_PAGE, KR_PAGE);
            if (r == -EFAULT)
                r = kr_sys3(__NR_lseek, fd, KR_PAGE, 1 /* SEEK_CUR */);
            if (r < 0)
                return r;
        }
        start += n;
        len -= n;
    }
    return 0;
}

static void put_char(char *out, size_t size, size_t *n, char c) {
    if (*n + 1 < size)
        out[(*n)++] = c;
}

void kr_core_format(char *out, size_t size, const char *pattern, const struct kr_core_name *c) {
    size_t n = 0;
    int has_pid = 0;
    if (!*pattern)
        pattern = "core";
    for (; *pattern && *pattern != '\n'; pattern++) {
        char word[80] = "";
        const char *s = word;
        if (*pattern != '%') {
            put_char(out, size, &n, *pattern);
            continue;
        }
        switch (*++pattern) {
        case 0:
            pattern--;
            break;
        case '%':
            s = "%";
            break;
        case 'p':
        case 'P':
        case 'i':
        case 'I':
            has_pid = 1;
            kr_snprintf(word, sizeof word, "%u", c->pid);
            break;
        case 'u':
            kr_snprintf(word, sizeof word, "%u", c->uid);
            break;
        case 'g':
            kr_snprintf(word, sizeof word, "%u", c->gid);
            break;
        case 's':
            kr_snprintf(word, sizeof word, "%u", c->sig);
            break;
        case 't':
            kr_snprintf(word, sizeof word, "%lu", (unsigned long)c->time);
            break;
        case 'h':
            s = c->host;
            break;
        case 'e':
        case 'f':
            s = c->comm;
            break;
        case 'E':
            s = c->exe;
            break;
        }
        for (; *s; s++) /* no slash may come from a name (format_corename()) */
            put_char(out, size, &n, *s == '/' ? '!' : *s);
    }
    if (!has_pid && c->uses_pid) {
        char word[16];
        kr_snprintf(word, sizeof word, ".%u", c->pid);
        for (const char *s = word; *s; s++)
            put_char(out, size, &n, *s);
    }
    out[n] = 0;
}

static void read_sysctl(const char *name, char *out, size_t size) {
    long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, name, 0, 0), n = 0;
    if (fd >= 0) {
        n = kr_sys3(__NR_read, fd, out, size - 1);
        kr_sys1(__NR_close, fd);
    }
    out[n > 0 ? n : 0] = 0;
}

static long open_core(struct kr_task *t, int sig) {
    char *pattern = kr_alloc(256), *path = kr_alloc(512);
    char comm[16] = "", uses[8], uts[6][65];
    s64 now[2] = {0, 0};
    if (!pattern || !path)
        return -ENOMEM;
    read_sysctl("sys/kernel/core_pattern", pattern, 256);
    if (*pattern == '|') { /* the host's handler belongs to the kernel; a file that nobody expects would fill
                              the container */
        kr_log("no core: kernel.core_pattern names a program");
        return -EPERM;
    }
    read_sysctl("sys/kernel/core_uses_pid", uses, sizeof uses);
    kr_sys5(__NR_prctl, 16 /* PR_GET_NAME */, comm, 0, 0, 0);
    kr_sys1(__NR_uname, uts);
    kr_sys2(__NR_clock_gettime, 0, now);
    struct kr_core_name n = {.pid = (u32)kr_sys0(__NR_getpid),
                             .uid = (u32)kr_sys0(__NR_getuid),
                             .gid = (u32)kr_sys0(__NR_getgid),
                             .sig = (u32)sig,
                             .uses_pid = uses[0] == '1',
                             .time = (u64)now[0],
                             .comm = comm,
                             .host = uts[1],
                             .exe = t->proc->exe_path ? t->proc->exe_path : comm};
    kr_core_format(path, 512, pattern, &n);
    return kr_sys4(__NR_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW_FLAG, 0600);
}

void kr_core_park(struct kr_task *t) {
    struct kr_mm *mm = t->mm;
    __atomic_add_fetch(&mm->parked, 1, __ATOMIC_SEQ_CST);
    kr_sys3(__NR_futex, &mm->parked, FUTEX_WAKE_PRIVATE, 1);
    for (;;) /* the process is dying; only SIGKILL or exit_group ends this */
        kr_sys4(__NR_futex, &mm->dumping, FUTEX_WAIT_PRIVATE, 1, 0);
}

/* Brings every other thread to a stand in its host handler, with its registers in its run page. SIGBUS always
 * has our handler. */
static u32 stop_others(struct kr_task *t) {
    struct kr_mm *mm = t->mm;
    u32 others = 0, seen;
    u64 pid = (u64)kr_sys0(__NR_getpid), until = kr_now() + 500000000ULL;
    kr_lock(&mm->lock);
    for (struct kr_task *o = mm->tasks; o; o = o->next)
        if (o != t && o->tid && !o->is_vfork && kr_sys3(__NR_tgkill, pid, o->tid, SIGBUS) == 0)
            others++;
    kr_unlock(&mm->lock);
    while ((seen = __atomic_load_n(&mm->parked, __ATOMIC_SEQ_CST)) < others && kr_now() < until) {
        s64 ts[2] = {0, 10000000};
        kr_sys4(__NR_futex, &mm->parked, FUTEX_WAIT_PRIVATE, seen, ts);
    }
    return seen >= others;
}

void kr_core_dump(struct kr_task *t, int sig, const siginfo_t *info) {
    struct kr_mm *mm = t->mm;
    u64 lim[2] = {0, 0};
    if (sig < 1 || sig > KR_NSIG || !(KR_SIGBIT(sig) & KR_CORE_SIGNALS) || t->is_vfork || !t->run)
        return;
    kr_sys4(__NR_prlimit64, 0, RLIMIT_CORE, 0, lim);
    if (lim[0] < KR_PAGE || __atomic_exchange_n(&mm->dumping, 1, __ATOMIC_SEQ_CST))
        return;
    int all = stop_others(t) != 0;
    long fd = open_core(t, sig);
    if (fd < 0)
        return;

    struct buffer b = {0};
    struct prpsinfo psi = {.sname = 'R',
                           .uid = (u32)kr_sys0(__NR_getuid),
                           .gid = (u32)kr_sys0(__NR_getgid),
                           .pid = (s32)kr_sys0(__NR_getpid),
                           .ppid = (s32)kr_sys0(__NR_getppid),
                           .pgrp = (s32)kr_sys0(__NR_getpgrp),
                           .sid = (s32)kr_sys1(__NR_getsid, 0)};
    kr_sys5(__NR_prctl, 16, psi.fname, 0, 0, 0);
    u64 args = KR_MIN(mm->arg_end - mm->arg_start, sizeof psi.args - 1);
    if (kr_copy_in(psi.args, mm->arg_start, args) == 0)
        for (u64 i = 0; i + 1 < args; i++)
            if (!psi.args[i])
                psi.args[i] = ' ';
    thread_notes(&b, t, sig); /* the dying thread comes first */
    note(&b, NOTE_NAME, NT_PRPSINFO, &psi, sizeof psi);
    if (info)
        note(&b, NOTE_NAME, 0x53494749 /* NT_SIGINFO */, info, sizeof *info);
    note(&b, NOTE_NAME, NT_AUXV, (const void *)mm->auxv_addr, mm->auxv_size);
    file_note(&b);
    for (struct kr_task *o = all ? mm->tasks : NULL; o; o = o->next)
        if (o != t && !o->is_vfork && o->run)
            thread_notes(&b, o, sig); /* the kernel names it in each; debuggers take the last */

    u64 at = sizeof(struct elf64_hdr) + (mm->nvma + 1ULL) * sizeof(struct elf64_phdr);
    struct elf64_hdr eh = {.e_ident = {0x7f, 'E', 'L', 'F', 2, 1, 1},
                           .e_type = ET_CORE,
                           .e_machine = EM_X86_64,
                           .e_version = 1,
                           .e_phoff = sizeof eh,
                           .e_ehsize = sizeof eh,
                           .e_phentsize = sizeof(struct elf64_phdr),
                           .e_phnum = (u16)(mm->nvma + 1)};
    struct elf64_phdr ph = {.p_type = PT_NOTE, .p_offset = at, .p_filesz = b.n, .p_align = 4};
    u64 data = KR_PAGE_UP(at + b.n);
    struct buffer heads = {0};
    add(&heads, &eh, sizeof eh);
    add(&heads, &ph, sizeof ph);
    for (u32 i = 0; i < mm->nvma; i++) {
        const struct kr_vma *v = &mm->vma[i];
        struct elf64_phdr p = {.p_type = PT_LOAD,
                               .p_offset = data,
                               .p_vaddr = v->start,
                               .p_memsz = v->end - v->start,
                               .p_filesz = dump_size(v),
                               .p_align = KR_PAGE,
                               .p_flags = (v->prot & PROT_READ ? PF_R : 0) |
                                          (v->prot & PROT_WRITE ? PF_W : 0) |
                                          (v->prot & PROT_EXEC ? PF_X : 0)};
        add(&heads, &p, sizeof p);
        data += p.p_filesz;
    }
    kr_sys3(__NR_write, fd, heads.p, heads.n);
    kr_sys3(__NR_write, fd, b.p, b.n);
    kr_sys3(__NR_lseek, fd, KR_PAGE_UP(at + b.n), 0);
    u64 written = KR_PAGE_UP(at + b.n);
    long r = 0;
    for (u32 i = 0; i < mm->nvma && r >= 0; i++) {
        u64 n = dump_size(&mm->vma[i]);
        if (written + n > lim[0]) /* cut off at the limit, as the kernel does */
            n = KR_PAGE_DOWN(lim[0] - written);
        r = write_memory((int)fd, mm->vma[i].start, n);
        written += n;
    }
    kr_sys2(__NR_ftruncate, fd, written);
    kr_sys1(__NR_close, fd);
}
