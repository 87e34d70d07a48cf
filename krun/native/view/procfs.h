/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files for the payload, and the payload's view of /proc.
 *
 * /proc in the container is a procfs of the kernel. The monitor serves the entries that would show the
 * monitor, or reach it: exe, maps, smaps, fd, fdinfo, mem, map_files, status, ... procname.c has the table of
 * these entries, kr_judge (place.c) the verdict on each.
 *
 * The monitor never recognises an entry by the path that the payload gave. Every open forbids magic links
 * (RESOLVE_NO_MAGICLINKS), so it reaches either an ordinary file or an entry of a procfs. The file system
 * tells the two apart. The name and the process of an entry come from the kernel's own path of the descriptor
 * and from the mount below it. So relative paths, dirfds, symlinks, thread-self, the own pid, bind mounts and
 * second procfs mounts give the same result. A path with a magic link (/proc/self/fd/3, /proc/self/exe) is
 * walked component by component, and each magic link is judged before it is followed (walk.h).
 *
 * While other threads share the descriptor table, no descriptor of a refused file may exist in it, not even
 * for a moment. The monitor opens the file with O_PATH, inspects it, and opens it again through its own
 * procfs handle.
 *
 * No lock is held over the host calls of these files, except those of ask.h.
 */
#ifndef KR_PROCFS_H
#define KR_PROCFS_H

#include "../machine/fdtab.h"
#include "../process/above.h"

struct open_how;

/* Opens path with O_PATH | O_CLOEXEC | flags (O_NOFOLLOW, O_DIRECTORY). Handlers that act on the file behind
 * a path use it, because the walk never follows a magic link to a file of the monitor. The caller closes the
 * descriptor. Descriptor or -errno. */
long kr_open_path(struct kr_task *t, int dirfd, const char *path, u32 flags);

/* Judges the object of `at`, an O_PATH descriptor of what the payload has named, and opens it with the payload's flags; O_CREAT,
 * O_EXCL and O_NOFOLLOW do not count. Closes `at`. Descriptor or -errno; -KR_ERESTART: the call is made again. */
long kr_open_found(struct kr_task *t, long at, u64 flags);

/* For access(2), which asks for the thread's real ids: whether they may search each directory on the way of path. follow: as
 * in kr_walk. 0 or -errno. */
long kr_walk_real(struct kr_task *t, int dirfd, const char *path, int follow);

/* The directory of a name, for calls that act on the name itself (mkdir, unlink, ...). `last` points to the
 * last component in path, with the slashes behind it; it is the whole path if path has one component. Nothing
 * of `last` is walked yet. */
struct kr_parent {
    int dir; /* the directory, or the dirfd that was given */
    int owned;
    int slash;           /* whether a slash follows the last component */
    int in_slot, hidden; /* dir is in a slot; `last` was a name of map_files (mapfiles.h) */
    const char *last;
};
/* path is a private copy; the function cuts it. 0 or -errno; after 0 the caller ends with kr_parent_close.
 * For a hidden number below fd or fdinfo, last is a number that is never open: so the kernel answers as for one. The same for
 * a name of map_files. */
long kr_parent_open(struct kr_task *t, int dirfd, char *path, struct kr_parent *p);
void kr_parent_close(struct kr_parent *p);

/* readlinkat(2) for the payload. path is a private copy; the function cuts it. buf is monitor memory. Length
 * or -errno. */
long kr_readlink(struct kr_task *t, int dirfd, char *path, char *buf, size_t size);

/* For lstat(2) of /proc/PID/fd/N of another process: the object of that descriptor, opened O_PATH
 * (kr_ask_link, ask.h). *pn: process and number. *mode: how it is open (F_GETFL). -ESRCH if path names no
 * such descriptor. */
struct kr_proc_name;
long kr_other_fd(struct kr_task *t, int dirfd, const char *path, struct kr_proc_name *pn, u32 *mode);

/* For a call of the payload by which the kernel opens the object of fd for writing, or the monitor does (truncate, acct,
 * swapon): 0, -EROFS or -EPERM (kr_write_refused), or -EACCES (an entry of a procfs, or fd cannot be judged). fd: in a slot. */
long kr_may_write(int fd);

/* What a listing of fd (getdents64(2)) must leave out. */
enum kr_dir_kind {
    KR_DIR_PLAIN = 0,
    KR_DIR_FDS = 1,       /* fd or fdinfo of this process: the hidden numbers */
    KR_DIR_EMPTY = 2,     /* map_files: everything */
    KR_DIR_TASKS = 3,     /* task of a process: threads that are not the payload's */
    KR_DIR_FDS_OTHER = 4, /* fd or fdinfo of another process: all numbers except those of kr_ask_fds */
    KR_DIR_REFUSED = 5,   /* may be one of these, and cannot be judged: -EACCES */
};
/* *pid: the process of the directory, 0 for the calling process; KR_DIR_TASKS: 0 where the numbers are its own. Unchanged outside of
 * a procfs. */
int kr_dir_kind(struct kr_task *t, int fd, u32 *pid);

/* Whether thread tid of this process (pid 0), or of process pid, is a worker that the kernel has made for KVM
 * (Linux 6.13 and later). */
int kr_is_kvm_thread(struct kr_task *t, u32 pid, u64 tid);
/* Whether a listing of threads leaves out tid. In this process (pid 0): every thread that is not the
 * payload's. These are KVM's workers and the monitor's short-lived threads, which the kernel lists a little
 * longer than they run. In process pid: KVM's workers. */
int kr_thread_hidden(struct kr_task *t, u32 pid, u64 tid);
/* Whether a process with a VM has such a worker (0 or 1). The function looks once, in the calling process. */
int kr_has_kvm_thread(struct kr_task *t);

/* The parts of the name of an entry below the root of a procfs. Pure functions; tests/native. */
enum kr_proc_entry {
    KR_PE_OTHER = 0, /* nothing that needs care */
    KR_PE_EXE,
    KR_PE_MAPS,
    KR_PE_SMAPS,
    KR_PE_SMAPS_ROLLUP,
    KR_PE_NUMA_MAPS,
    KR_PE_STATUS,
    KR_PE_STAT,
    KR_PE_STATM,
    KR_PE_AUXV,
    KR_PE_ENVIRON,
    KR_PE_SYSCALL,
    KR_PE_FD,   /* the directory */
    KR_PE_FD_N, /* fd/N */
    KR_PE_FDINFO,
    KR_PE_FDINFO_N,
    KR_PE_MAP_FILES,
    KR_PE_MAP_FILES_N,
    KR_PE_CWD,
    KR_PE_ROOT,
    KR_PE_NS_N, /* ns/NAME */
    KR_PE_TASK, /* the directory */
    KR_PE_MEM,  /* this and the next two: refused as well, except by sys/memfile.c */
    KR_PE_PAGEMAP,
    KR_PE_CLEAR_REFS,
    KR_PE_REFUSED, /* stack: it shows the monitor's calls */
};
/* Whose numbers a procfs has. Each procfs belongs to a pid namespace, and a payload can reach a procfs of another one. */
#define KR_NUMBERS_MINE 1u /* those of the calling process's pid namespace: getpid(2), gettid(2) */
#define KR_NUMBERS_OURS 2u /* those of the monitor's procfs and of the board */
struct kr_proc_name {
    enum kr_proc_entry entry;
    u32 numbers; /* KR_NUMBERS_*; only for entries that show or reach a process (kr_place_name) */
    u32 self;    /* the number of the calling process in this procfs; 0: unknown or none */
    u64 pid;     /* number of the process's directory; 0: none */
    u64 tid;     /* TID of task/TID; 0: none */
    u64 n;       /* N of fd/N and fdinfo/N; index of NAME in ns/NAME */
};
/* rel: "12/maps", "12/task/13/fd/3"; no leading slash. */
void kr_proc_parse(const char *rel, struct kr_proc_name *out);
/* Whether name, a last component, can be one of the entries above; then kr_place_name determines its
 * place. */
int kr_proc_suspect(const char *name);

/* Whether entry is status, stat or statm, which every process may read. */
static inline int kr_proc_figures(enum kr_proc_entry entry) {
    return entry == KR_PE_STATUS || entry == KR_PE_STAT || entry == KR_PE_STATM;
}

/* The NAME of ns/NAME with index n, or NULL. */
const char *kr_proc_ns_name(u64 n);

/* The payload's view of an entry (view/procview.c): a descriptor for reading, close-on-exec, or -errno. rel
 * is the name of the entry below the monitor's procfs handle, for example "thread-self/maps". */
long kr_procview(struct kr_task *t, enum kr_proc_entry entry, const char *rel);
/* The view of w, status, stat or statm of the calling process or of one of its threads. fd: the entry, or an O_PATH descriptor of it,
 * where no other thread can exchange it. The text comes from fd, never from a number: the same number is another process in
 * the procfs of another pid namespace. Descriptor or -errno. */
long kr_procview_own_text(struct kr_task *t, const struct kr_proc_name *w, int fd);

/* The view of an entry of the calling process for another process that asks (view/ask.h): maps, smaps,
 * smaps_rollup, numa_maps, auxv, environ, fdinfo/N. -EACCES for other entries. */
long kr_procview_own(struct kr_task *t, enum kr_proc_entry entry, u32 n);
/* The view of w, an entry of another process. status, stat and statm: the text of fd (as above) with the payload's values in
 * place of the monitor's, and without addresses. Every process may read these three, so no question is needed: the
 * board has the values, and procsize.h. Other entries: the answer of that process (ask.h). -ESRCH: the process is not known to be a monitor of
 * this container (not for stat, nor for environ, of which the kernel's text is shown then). */
long kr_procview_other(struct kr_task *t, const struct kr_proc_name *w, int fd);
/* A sealed memfd with the n bytes at data, open for reading only, or -errno. name: for its label. */
long kr_procview_publish(struct kr_task *t, const void *data, size_t n, const char *name);

/* Reads the whole file rel below the monitor's procfs handle into a buffer of the heap, with a NUL behind it.
 * *len: bytes read. *size: for kr_free. NULL on failure. */
char *kr_proc_slurp(struct kr_task *t, const char *rel, size_t *size, size_t *len);
/* The same, of the file rel below the directory dir (O_PATH) of the file system `on`, without leaving that mount: NULL if dir
 * does not lie there. */
struct statx;
char *kr_proc_slurp_at(struct kr_task *t, int dir, const struct statx *on, const char *rel, size_t *size,
                       size_t *len);

/* The numbers that a directory below the handle (task, fd) contains, in the kernel's order. */
#define KR_NUMBERS_MAX (1u << 20)
struct kr_numbers {
    const char *rel;
    u32 *v, n, room;
    int dir; /* the descriptor by which the directory was read; a listing of descriptors contains it */
};
/* 0 or -errno. The caller ends with kr_numbers_free in both cases. */
long kr_proc_numbers(struct kr_task *t, const char *rel, struct kr_numbers *l);
void kr_numbers_free(struct kr_numbers *l);

/* Writes the path of descriptor fd, or of rel, below the monitor's procfs handle into buf. The handle (for
 * *at calls); AT_FDCWD with an absolute path if the monitor has no handle. */
int kr_proc_self_fd(char *buf, size_t size, int fd);
int kr_proc_handle(char *buf, size_t size, const char *rel);

/* The name of a memfd with a view begins with this label. readlink(2) of its descriptor shows the payload the
 * entry of /proc instead (proclink.c). */
#define KR_VIEW_LABEL "proc:"

#endif
