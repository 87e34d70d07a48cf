/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files for the payload, and what /proc shows it.
 *
 * /proc in the container is the kernel's. Entries of the payload's own process that would show (or reach) the
 * monitor are served otherwise: exe, maps, smaps, fd, fdinfo, mem, map_files, status, ... One table in
 * procfs.c: entry -> how.
 *
 * How they are recognised: never by the path that the payload gave. Every open forbids magic links
 * (RESOLVE_NO_MAGICLINKS), so what it reaches is either an ordinary file or an entry of a procfs; the latter
 * is told by the inode, and its name and process by the kernel's own path of the descriptor together with the
 * mount it is on. So relative paths, dirfds, symlinks, thread-self, own pid, bind mounts and second procfs
 * mounts come to the same. A path with a magic link (/proc/self/fd/3, /proc/self/exe) is walked here,
 * component by component, and each magic link is judged before it is followed.
 *
 * While other threads share the descriptor table, no descriptor of a refused file may exist there even for a
 * moment: the file is first opened O_PATH, inspected, and re-opened through the monitor's own procfs handle.
 *
 * No lock is held over host calls here; mm->lock only while the VMA array is copied.
 */
#ifndef KR_PROCFS_H
#define KR_PROCFS_H

#include "../machine/fdtab.h"
#include "../process/above.h"

struct open_how;

/* The same as openat2 with O_PATH | flags (O_NOFOLLOW, O_DIRECTORY), cloexec: for handlers that act on the
 * file that a path of the payload names and must not follow a magic link to a file of the monitor's. Close it
 * afterwards. */
long kr_open_path(struct kr_task *t, int dirfd, const char *path, u32 flags);

/* The directory that a name lies in: for calls that act on a name and not on what it leads to. `last` is the last component (with
 * the slashes behind it) in path, of which nothing is walked yet; it is the whole path where that has but one. */
struct kr_parent {
    int dir; /* the directory, or the dirfd that was given */
    int owned;
    int slash; /* a slash stands behind the last component */
    const char *last;
};
/* path is a private copy, and is cut. 0 or -errno; then kr_parent_close. A number below fd or fdinfo that the payload must not see
 * is -ENOENT. */
long kr_parent_open(struct kr_task *t, int dirfd, char *path, struct kr_parent *p);
void kr_parent_close(struct kr_parent *p);

/* readlinkat(2): own exe, fd/N. path is a private copy, and is cut; buf is monitor memory. Length or -errno. */
long kr_readlink(struct kr_task *t, int dirfd, char *path, char *buf, size_t size);

/* For lstat(2): the object of a descriptor of another process that path names, O_PATH, as kr_ask_link
 * (ask.h); -ESRCH: it names none. *pn: process and number; *mode: how it is open. */
struct kr_proc_name;
long kr_other_fd(struct kr_task *t, int dirfd, const char *path, struct kr_proc_name *pn, u32 *mode);

/* Whether fd lies on a procfs. */
int kr_fd_on_proc(int fd);

/* What a getdents on fd must leave out. */
enum kr_dir_kind {
    KR_DIR_PLAIN = 0,
    KR_DIR_FDS = 1,       /* fd or fdinfo of this process: the hidden numbers */
    KR_DIR_EMPTY = 2,     /* map_files: everything */
    KR_DIR_TASKS = 3,     /* task of a process: threads that KVM made */
    KR_DIR_FDS_OTHER = 4, /* fd or fdinfo of another process: what it says is not open */
};
/* *pid: the process that the directory is about. */
int kr_dir_kind(struct kr_task *t, int fd, u32 *pid);

/* Whether a thread of this process (pid 0) or of another is one that the kernel made for KVM (since
 * Linux 6.13 it has a worker in the process). */
int kr_is_kvm_thread(struct kr_task *t, u32 pid, u64 tid);
/* Whether a listing of threads leaves tid out: of this process (pid 0) what is none of the payload's (KVM's, and the monitor's own
 * short-lived ones, which the kernel lists a little longer than they run). */
int kr_thread_hidden(struct kr_task *t, u32 pid, u64 tid);
/* Whether a process with a VM has one (0 or 1); looked for once, in this one. */
int kr_has_kvm_thread(struct kr_task *t);

/* An entry below the root of a procfs, taken apart. Pure; tests/native. */
enum kr_proc_entry {
    KR_PE_OTHER = 0, /* nothing that needs care */
    KR_PE_EXE,
    KR_PE_MAPS,
    KR_PE_SMAPS,
    KR_PE_SMAPS_ROLLUP,
    KR_PE_NUMA_MAPS,
    KR_PE_STATUS,
    KR_PE_STAT,
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
    KR_PE_NS_N,    /* ns/NAME */
    KR_PE_TASK,    /* the directory */
    KR_PE_REFUSED, /* mem, pagemap, clear_refs, stack: power over, or a view of, a process's memory */
};
struct kr_proc_name {
    enum kr_proc_entry entry;
    u64 pid; /* the directory's number; 0: none */
    u64 tid; /* of task/TID, else 0 */
    u64 n;   /* of fd/N, fdinfo/N; index of ns/NAME */
};
/* rel: "12/maps", "12/task/13/fd/3"; no leading slash. */
void kr_proc_parse(const char *rel, struct kr_proc_name *out);
/* Whether a last path component can be one of the entries above (then its place has to be found out). */
int kr_proc_suspect(const char *name);

/* The name of n in KR_PE_NS_N, or NULL. */
const char *kr_proc_ns_name(u64 n);

/* Contents in the payload's view (view/procview.c): a descriptor for reading, close-on-exec, or -errno. rel
 * names the entry below the monitor's procfs handle, e.g. "thread-self/maps". */
long kr_procview(struct kr_task *t, enum kr_proc_entry entry, const char *rel);

/* The same of the calling process for another one that asks (view/ask.h): maps, smaps, smaps_rollup,
 * numa_maps, auxv, environ, fdinfo/N. */
long kr_procview_own(struct kr_task *t, enum kr_proc_entry entry, u32 n);
/* status or stat of another process of the container, which everybody may read: the kernel's text rel, less
 * what is the monitor's. -ESRCH: not a monitor. */
long kr_procview_other(struct kr_task *t, enum kr_proc_entry entry, u32 pid, const char *rel);
/* A sealed memfd with n bytes, open for reading only, or -errno. */
long kr_procview_publish(struct kr_task *t, const void *data, size_t n, const char *name);

/* Reads a whole file below the monitor's procfs handle into a buffer of the heap, NUL-terminated; NULL on
 * failure. *size is for kr_free. */
char *kr_proc_slurp(struct kr_task *t, const char *rel, size_t *size, size_t *len);

/* The numbers that a directory below the handle lists (task, fd), in the kernel's order. */
#define KR_NUMBERS_MAX (1u << 20)
struct kr_numbers {
    const char *rel;
    u32 *v, n, room;
    int dir; /* the number of the descriptor that was open for it: one of the list, where it lists descriptors */
};
/* 0 or -errno; kr_numbers_free in any case. */
long kr_proc_numbers(struct kr_task *t, const char *rel, struct kr_numbers *l);
void kr_numbers_free(struct kr_numbers *l);

/* In a fork child: no other thread waits for the other end of a FIFO. */
void kr_open_after_fork(void);

/* Path of descriptor fd below the monitor's procfs handle. Returns the handle (for *at calls). */
int kr_proc_self_fd(char *buf, size_t size, int fd);
int kr_proc_handle(char *buf, size_t size, const char *rel);

/* Views of /proc files are memfds with this in their names: readlink of their descriptors shows the file they
 * stand for. */
#define KR_VIEW_LABEL "proc:"

#endif
