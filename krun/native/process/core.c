/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a dying process leaves a core file: do_coredump() and coredump_file() in fs/coredump.c. The file's
 * header is that of elf_core_dump() in fs/binfmt_elf.c. No state.
 */
#include "core.h"
#include "resume.h"
#include "../machine/mm.h"
#include "hostsig.h"
#include "quiesce.h"
#include "process.h"
#include "state.h"
#include "../lib/kr_linux.h"
#include "nnp.h"
#include <linux/elf.h>
#include <linux/resource.h>

/* How long a thread may take to stop, ns. A thread that takes longer is in a host call that no signal ends. */
#define PATIENCE_NS 10000000000ULL

static void read_sysctl(const char *name, char *out, size_t size) {
    long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, name, O_RDONLY | O_CLOEXEC, 0), n = 0;
    if (fd >= 0) {
        n = kr_sys3(__NR_read, fd, out, size - 1);
        kr_sys1(__NR_close, fd);
    }
    out[n > 0 ? n : 0] = 0;
}

/* ---- whether and where ---- */

struct wish {
    int sig;
    u32 dumpable; /* 0: no core; 1: a core with the user's rights (fs.suid_dumpable) */
    u64 limit;    /* RLIMIT_CORE, bytes */
    u32 fsuid;
};

/* The dumpable attribute of the memory: the payload's own value, or fs.suid_dumpable if the credentials have
 * changed since the process became dumpable (commit_creds()). Mode 2 of fs.suid_dumpable (the file belongs to
 * root) is not offered, because the payload may not be root. */
static u32 dumpable(struct kr_task *t) {
    char text[8];
    if (__atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_UNDUMPABLE)
        return 0;
    if (kr_dumpable_view(t))
        return 1;
    read_sysctl("sys/fs/suid_dumpable", text, sizeof text);
    return text[0] == '1';
}

/* Whether a core is asked for. Opens nothing. */
static int asked_for(const struct kr_task *t, int sig, struct wish *w) {
    u64 lim[2] = {0, 0};
    if (sig < 1 || sig > KR_NSIG || !(KR_SIGBIT(sig) & KR_CORE_SIGNALS) || !t->runs)
        return 0;
    kr_sys4(__NR_prlimit64, 0, RLIMIT_CORE, 0, lim);
    if (lim[0] < KR_CORE_MIN)
        return 0;
    w->sig = sig;
    w->limit = lim[0];
    return 1;
}

/* Whether the process may leave a core. */
static int allowed(struct kr_task *t, struct wish *w) {
    w->fsuid = (u32)kr_sys1(__NR_setfsuid, -1);
    w->dumpable = dumpable(t);
    return w->dumpable != 0;
}

static int core_path(struct kr_task *t, const struct wish *w, char *path, size_t size) {
    char pattern[256], comm[16] = "", uses[8], uts[6][65];
    s64 now[2] = {0, 0};
    read_sysctl("sys/kernel/core_pattern", pattern, sizeof pattern);
    if (*pattern == '|' ||
        *pattern ==
            '@') { /* Only the kernel may start the host's handler. A file that nobody expects would fill the container. */
        kr_log("no core: kernel.core_pattern names a program or a socket");
        return 0;
    }
    read_sysctl("sys/kernel/core_uses_pid", uses, sizeof uses);
    kr_sys5(__NR_prctl, PR_GET_NAME, comm, 0, 0, 0);
    kr_sys1(__NR_uname, uts);
    kr_sys2(__NR_clock_gettime, 0, now);
    struct kr_core_name n = {.pid = (u32)kr_sys0(__NR_getpid),
                             .uid = (u32)kr_sys0(__NR_getuid),
                             .gid = (u32)kr_sys0(__NR_getgid),
                             .sig = (u32)w->sig,
                             .uses_pid = uses[0] == '1',
                             .dumpable = w->dumpable,
                             .time = (u64)now[0],
                             .limit = w->limit,
                             .comm = comm,
                             .host = uts[1],
                             .exe = t->proc->exe_path ? t->proc->exe_path : comm};
    kr_core_format(path, size, pattern, &n);
    return 1;
}

/* Creates the file, owned by the process and accessible to no other user (coredump_file()). Descriptor or
 * -errno. */
static long open_core(struct kr_task *t, const struct wish *w) {
    char path[512];
    struct statx sx;
    if (!core_path(t, w, path, sizeof path))
        return -EPERM;
    long fd = kr_core_create(path);
    const char *why = "open";
    long r = fd < 0 ? fd : kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx);
    if (r >= 0 && (sx.stx_nlink != 1 || !S_ISREG(sx.stx_mode) || sx.stx_uid != w->fsuid ||
                   (sx.stx_mode & 0677) != 0600)) {
        why = "owner, links or mode of the file";
        r = -EPERM;
    }
    if (r >= 0)
        r = kr_sys2(__NR_ftruncate, fd, 0);
    if (r >= 0)
        return fd;
    kr_log("no core: %s: %s: errno %ld", path, why, -r);
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
    return r;
}

/* ---- the file ---- */

static void put_segment(struct kr_core_out *o, const struct kr_core_segment *s, u64 at) {
    struct elf64_phdr p = {.p_type = PT_LOAD,
                           .p_offset = at,
                           .p_vaddr = s->start,
                           .p_memsz = s->end - s->start,
                           .p_filesz = s->size,
                           .p_align = KR_PAGE,
                           .p_flags = (s->prot & PROT_READ ? PF_R : 0) | (s->prot & PROT_WRITE ? PF_W : 0) |
                                      (s->prot & PROT_EXEC ? PF_X : 0)};
    kr_core_emit(o, &p, sizeof p);
}

/* Writes the ELF header, the program headers, the notes and the memory. More than 65534 segments are counted
 * in a section header (fill_extnum_info()). */
static void write_core(struct kr_core_out *o, const struct kr_core_map *m,
                       const struct kr_core_bytes *notes) {
    u32 n;
    const struct kr_core_segment *s = kr_core_segments(m, &n);
    u32 headers = n + 1, many = headers >= PN_XNUM;
    u64 at = sizeof(struct elf64_hdr) + headers * sizeof(struct elf64_phdr);
    u64 data = KR_PAGE_UP(at + notes->n), end = data;
    for (u32 i = 0; i < n; i++)
        end += s[i].size;
    struct elf64_hdr eh = {.e_ident = {0x7f, 'E', 'L', 'F', 2, 1, 1},
                           .e_type = ET_CORE,
                           .e_machine = EM_X86_64,
                           .e_version = 1,
                           .e_phoff = sizeof eh,
                           .e_ehsize = sizeof eh,
                           .e_phentsize = sizeof(struct elf64_phdr),
                           .e_phnum = (u16)(many ? PN_XNUM : headers),
                           .e_shoff = many ? end : 0,
                           .e_shentsize = many ? sizeof(struct elf64_shdr) : 0,
                           .e_shnum = (u16)many};
    struct elf64_phdr ph = {.p_type = PT_NOTE, .p_offset = at, .p_filesz = notes->n, .p_align = 4};
    kr_core_emit(o, &eh, sizeof eh);
    kr_core_emit(o, &ph, sizeof ph);
    u64 to = data;
    for (u32 i = 0; i < n; to += s[i++].size)
        put_segment(o, &s[i], to);
    kr_core_emit(o, notes->p, notes->n);
    kr_core_hole(o, data - at - notes->n);
    for (u32 i = 0; i < n && !o->ended; i++)
        kr_core_write_segment(o, &s[i]);
    struct elf64_shdr sh = {.sh_info = headers, .sh_size = 1};
    if (many)
        kr_core_emit(o, &sh, sizeof sh);
    if (o->hole) { /* the last byte is written, so that the file has its full length where it ends in a hole */
        o->hole--;
        kr_core_emit(o, "", 1);
    }
}

void kr_core_dump(struct kr_task *t, int sig, const siginfo_t *info) {
    struct wish w;
    if (!asked_for(t, sig, &w))
        return;
    kr_host_mask(~0ULL);
    /* From here on this thread has a descriptor table of its own. No thread of the process, which may still run, and no
     * relative with CLONE_FILES reaches what it opens. */
    long r = kr_sys1(__NR_unshare, CLONE_FILES);
    if (r < 0) {
        kr_log("no core: unshare(CLONE_FILES): errno %ld", -r);
        return;
    }
    if (!allowed(t, &w))
        return;
    if (kr_quiesce(t, PATIENCE_NS) < 0) {
        kr_log("no core: a thread of process %ld does not come out of its system call", kr_sys0(__NR_getpid));
        return;
    }
    long fd = open_core(t, &w);
    if (fd < 0)
        return;
    struct kr_core k = {.t = t, .sig = sig, .info = info};
    struct kr_core_out out = {.fd = (int)fd, .limit = w.limit};
    out.mem = (int)kr_sys4(__NR_openat, kr_boot.fd_proc, "self/mem", O_RDONLY | O_CLOEXEC, 0);
    kr_state_core(&k);
    if (!k.error)
        write_core(&out, &k.map, &k.notes);
    else
        kr_log("no core: reading the mappings: errno %ld", -k.error);
    kr_sys1(__NR_close, fd);
}
