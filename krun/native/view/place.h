/* SPDX-License-Identifier: Apache-2.0
 *
 * Which entry of a procfs a descriptor is, and what the payload gets for it (the verdict). Only the files
 * that open, walk and read links use it: procfs.c, walk.c, proclink.c.
 *
 * A verdict concerns a descriptor. If the monitor opens the file's content afterwards, the descriptor must
 * stand at a number where no other thread can exchange it (kr_slot_put, fdtab.h). The verdict on a link needs
 * no slot, because the monitor never follows a magic link from the place where the payload found it (walk.h).
 */
#ifndef KR_PLACE_H
#define KR_PLACE_H

#include "../lib/kr_linux.h"
#include "procfs.h"

#define KR_PATH_ROOM 4096u /* PATH_MAX */

#define KR_IS_LINK(mode) (((mode)&S_IFMT) == S_IFLNK)
#define KR_IS_DIR(mode) (((mode)&S_IFMT) == S_IFDIR)
#define KR_IS_FIFO(mode) (((mode)&S_IFMT) == S_IFIFO)

/* Components of a path. */
static inline size_t kr_comp_len(const char *s) {
    size_t n = 0;
    while (s[n] && s[n] != '/')
        n++;
    return n;
}
/* The path behind the component of n bytes at s and the slashes after it. */
static inline const char *kr_comp_next(const char *s, size_t n) {
    s += n;
    while (*s == '/')
        s++;
    return s;
}

/* openat2(2) with O_CLOEXEC, as a plain host call (no kr_call_intr). Descriptor or -errno. */
long kr_open_plain(int dirfd, const char *path, u64 flags, u64 resolve);

/* Type, mode, inode, device, mount of fd. 0 or -errno. */
long kr_stat_fd(int fd, struct statx *sx);
/* Whether the file may lie on a procfs. No system call except the first time; the answer 0 is certain. */
int kr_maybe_proc(const struct statx *sx);
/* Whether fd lies on a procfs; also if the file system does not tell. The type of the file system decides, not the mount
 * table: a mount without a place, or in another mount namespace, is in no table. sx: from kr_stat_fd(fd). */
int kr_on_proc(int fd, const struct statx *sx);

/* THE rule of what the monitor, or the kernel for it, opens for writing in place of the payload, with the flags of
 * open(2): 0, or the errno. -EROFS: a file of binfmt_misc, where an entry would put a program of the image in the monitor's
 * place. -EPERM: a device whose write(2) takes addresses, which would be the monitor's (the table in place.c). fd: the file or an
 * O_PATH descriptor of it, where no other thread can exchange it. sx: from kr_stat_fd(fd). Logs what it refuses. */
int kr_write_refused(int fd, const struct statx *sx, u64 flags);

/* Fills out->numbers and out->self (instance.c). sx: of an entry of the procfs whose root directory is `root` (O_PATH; negative:
 * /proc). Both stay 0 if root is not of that procfs, or if the procfs does not show the calling process. */
#define KR_STATX_MNT_ID_UNIQUE 0x4000u /* Linux 6.8 */
void kr_place_numbers(struct kr_task *t, const struct statx *sx, int root, struct kr_proc_name *out);

/* The numbers in the line NStgid of a text of status: how many; *first is the first one. 0: no such line. */
u32 kr_place_count(const char *text, u32 *first);

/* The kernel's path of fd, in path[KR_PATH_ROOM]. 0, or -EACCES for a text that cannot be the path of an entry. */
int kr_place_path(int fd, char *path);
/* The name of fd (on a procfs) below the root of that procfs. path[KR_PATH_ROOM] receives the text. 0, or
 * -EACCES if the place cannot be determined. */
int kr_place_name(struct kr_task *t, int fd, const struct statx *sx, char *path, struct kr_proc_name *out);
/* Whether the kernel's listing of the directory fd on a procfs, whose place cannot be determined, shows nothing of a monitor:
 * each directory except fd, fdinfo, map_files and task. path[KR_PATH_ROOM]: scratch. */
int kr_place_plain_dir(int fd, const struct statx *sx, char *path);
/* Whether w->pid is the calling process or one of its threads. */
int kr_place_own(const struct kr_proc_name *w);
/* The number of w's process on the board; 0 if it is not known. */
static inline u32 kr_place_asked(const struct kr_proc_name *w) {
    return w->numbers & KR_NUMBERS_OURS ? (u32)w->pid : 0;
}

/* Whether the rules of the payload's landlock domains, and the mode and owner of w, let it read w, for which the monitor makes a
 * text or a listing (rules.c). fd: the entry, where no other thread can exchange it; negative where it cannot be opened. mode: its stx_mode. */
int kr_rules_let(struct kr_task *t, int fd, const struct kr_proc_name *w, u32 mode);

enum kr_verdict {
    KR_V_PASS,
    KR_V_DENY,   /* -EACCES */
    KR_V_ABSENT, /* -ENOENT */
    KR_V_EXE,    /* exe of the calling process: leads to the payload's program */
    KR_V_OWN,    /* a magic link of the calling process */
    KR_V_VIEW,   /* the monitor's text replaces the kernel's */
    KR_V_LINK,   /* a magic link of another process: its monitor is asked where it leads */
    KR_V_TEXT,   /* a text of another process: its monitor is asked for it */
};
/* The verdict on fd, which lies on a procfs; *w is its entry. */
enum kr_verdict kr_judge(struct kr_task *t, int fd, const struct statx *sx, struct kr_proc_name *w);
/* The verdict on any fd before it is opened: directories pass. Fills *sx. *what is filled unless the verdict
 * is KR_V_PASS or KR_V_DENY. */
enum kr_verdict kr_inspect(struct kr_task *t, int fd, struct statx *sx, struct kr_proc_name *what);

/* Names of entries (procname.c): "fd" -> KR_PE_FD and back; a decimal number in the form that procfs accepts.
 * The name ends at a slash. */
enum kr_proc_entry kr_proc_entry_of(const char *name);
const char *kr_proc_entry_name(enum kr_proc_entry entry);
int kr_proc_number(const char *name, u64 *v);

#endif
