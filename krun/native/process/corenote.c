/* SPDX-License-Identifier: Apache-2.0
 *
 * The notes of a core file, in the format of fs/binfmt_elf.c, so that debuggers read them unchanged. No
 * state. The other threads are stopped, so their registers may be read.
 */
#include "core.h"
#include "../machine/cpu.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../machine/x86.h"
#include "../lib/kr_linux.h"
#include <linux/elf.h>

#define NOTE_NAME "CORE"
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

static void note(struct kr_core_bytes *b, const char *name, u32 type, const void *data, size_t n) {
    static const u8 zero[8];
    struct elf64_note h = {(u32)strlen(name) + 1, (u32)n, type};
    kr_core_add(b, &h, sizeof h);
    kr_core_add(b, name, h.n_namesz);
    kr_core_add(b, zero, -h.n_namesz & 3);
    kr_core_add(b, data, n);
    kr_core_add(b, zero, -n & 3);
}

static void status_note(struct kr_core_bytes *b, struct kr_task *t, int sig) {
    struct kvm_regs r = *kr_regs(t);
    const struct kvm_sregs *s = &t->run->s.regs.sregs;
    u64 nr = t->nr;
    if (t->resumed && r.rip == t->resume_rip) { /* stopped in a call: shown in the form of the kernel */
        nr = r.rax;
        r.rax = (u64)-KR_ERESTART;
        r.rip += 2;
    }
    struct prstatus ps = {.signo = sig,
                          .cursig = (u16)sig,
                          .sighold = t->sigmask,
                          .pid = (s32)t->tid,
                          .ppid = (s32)kr_sys0(__NR_getppid),
                          .pgrp = (s32)kr_sys0(__NR_getpgrp),
                          .sid = (s32)kr_sys1(__NR_getsid, 0),
                          .r15 = r.r15,
                          .r14 = r.r14,
                          .r13 = r.r13,
                          .r12 = r.r12,
                          .rbp = r.rbp,
                          .rbx = r.rbx,
                          .r11 = r.r11,
                          .r10 = r.r10,
                          .r9 = r.r9,
                          .r8 = r.r8,
                          .rax = r.rax,
                          .rcx = r.rcx,
                          .rdx = r.rdx,
                          .rsi = r.rsi,
                          .rdi = r.rdi,
                          .orig_rax = nr,
                          .rip = r.rip,
                          .cs = KR_USER_CS,
                          .rflags = r.rflags,
                          .rsp = r.rsp,
                          .ss = KR_USER_SS,
                          .fs_base = s->fs.base,
                          .gs_base = s->gs.base,
                          .fpvalid = 1};
    note(b, NOTE_NAME, NT_PRSTATUS, &ps, sizeof ps);
}

static void fpu_notes(struct kr_core_bytes *b, struct kr_task *t) {
    u8 x[sizeof(struct kvm_xsave)];
    struct kr_vm *vm = &t->mm->vm;
    if (kr_cpu_get_xsave(t, x) < 0)
        return;
    note(b, NOTE_NAME, NT_PRFPREG, x, 512);
    memcpy(x + 464, &vm->xcr0, 8); /* gdb reads XCR0 at this offset */
    note(b, "LINUX", NT_X86_XSTATE, x, vm->xsave_size);
}

static void process_note(struct kr_core_bytes *b, struct kr_task *t) {
    const struct kr_mm *mm = t->mm;
    struct prpsinfo psi = {.sname = 'R',
                           .uid = (u32)kr_sys0(__NR_getuid),
                           .gid = (u32)kr_sys0(__NR_getgid),
                           .pid = (s32)kr_sys0(__NR_getpid),
                           .ppid = (s32)kr_sys0(__NR_getppid),
                           .pgrp = (s32)kr_sys0(__NR_getpgrp),
                           .sid = (s32)kr_sys1(__NR_getsid, 0)};
    kr_sys5(__NR_prctl, PR_GET_NAME, psi.fname, 0, 0, 0);
    u64 args = KR_MIN(mm->arg_end - mm->arg_start, sizeof psi.args - 1);
    if (kr_copy_in(psi.args, mm->arg_start, args) == 0)
        for (u64 i = 0; i + 1 < args; i++)
            if (!psi.args[i])
                psi.args[i] = ' ';
    note(b, NOTE_NAME, NT_PRPSINFO, &psi, sizeof psi);
}

/* The auxiliary vector, read from the stack of the payload, which the payload may have unmapped. */
static void auxv_note(struct kr_core_bytes *b, const struct kr_mm *mm) {
    u8 auxv[512];
    u64 n = KR_MIN(mm->auxv_size, sizeof auxv);
    if (n && kr_copy_in(auxv, mm->auxv_addr, n) == 0)
        note(b, NOTE_NAME, NT_AUXV, auxv, n);
}

/* NT_FILE: struct { count, page size; { start, end, offset in pages } each } and the paths. */
static void file_note(struct kr_core_bytes *b, const struct kr_core_map *m) {
    struct kr_core_bytes table = {0}, names = {0};
    u64 head[2] = {0, KR_PAGE};
    u32 n;
    const struct kr_core_segment *s = kr_core_segments(m, &n);
    for (u32 i = 0; i < n; i++) {
        if (!s[i].name)
            continue;
        const char *path = (const char *)m->names.p + s[i].name - 1;
        u64 e[3] = {s[i].start, s[i].end, s[i].offset / KR_PAGE};
        kr_core_add(&table, e, sizeof e);
        kr_core_add(&names, path, strlen(path) + 1);
        head[0]++;
    }
    struct kr_core_bytes all = {0};
    kr_core_add(&all, head, sizeof head);
    kr_core_add(&all, table.p, table.n);
    kr_core_add(&all, names.p, names.n);
    if (!table.failed && !names.failed && !all.failed)
        note(b, NOTE_NAME, NT_FILE, all.p, all.n);
    kr_free(table.p, table.room);
    kr_free(names.p, names.room);
    kr_free(all.p, all.room);
}

static void notes(struct kr_core_bytes *b, struct kr_task *t, int sig, const siginfo_t *info,
                  const struct kr_core_map *m) {
    status_note(b, t, sig); /* the dying thread comes first */
    process_note(b, t);
    if (info)
        note(b, NOTE_NAME, NT_SIGINFO, info, sizeof *info);
    auxv_note(b, t->mm);
    file_note(b, m);
    fpu_notes(b, t);
    kr_lock(&t->mm->lock); /* relatives start and end meanwhile; a stopped thread holds no lock */
    for (struct kr_task *o = t->mm->tasks; o; o = o->next) {
        if (o == t || o->proc != t->proc || !o->run)
            continue;
        status_note(b, o, sig); /* every status has the signal, as in the kernel; debuggers take the last */
        fpu_notes(b, o);
    }
    kr_unlock(&t->mm->lock);
}

void kr_core_save_tasks(struct kr_core *k) {
    if (!k->error)
        notes(&k->notes, k->t, k->sig, k->info, &k->map);
    if (!k->error && k->notes.failed)
        k->error = -ENOMEM;
}
