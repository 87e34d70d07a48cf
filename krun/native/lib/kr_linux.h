/* SPDX-License-Identifier: Apache-2.0
 *
 * Linux's names: the kernel's own headers, names that the headers of Debian 12 (Linux 6.1) lack, and the few
 * structures of the system-call interface that no header for user space has. All have the kernel's names, so
 * that a newer header takes over. A file that is also built hosted (tests/native) must not use this header with
 * a header of libc, which defines some of the same names.
 */
#ifndef KR_LINUX_H
#define KR_LINUX_H

#include "kr_sys.h"
#include <asm/signal.h>
#include <asm/socket.h>
#include <asm/statfs.h>
#include <linux/fcntl.h>
#include <linux/ipc.h>
#include <linux/kvm.h>
#include <linux/mman.h>
#include <linux/poll.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/sem.h>
#include <linux/signal.h>
#include <linux/socket.h>
#include <linux/stat.h>

/* ---- calls ---- */

#ifndef __NR_futex_requeue
#define __NR_futex_wake 454
#define __NR_futex_wait 455
#define __NR_futex_requeue 456
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_getxattrat 464
#define __NR_listxattrat 465
#define __NR_removexattrat 466
#endif
#ifndef __NR_file_getattr
#define __NR_file_getattr 468
#define __NR_file_setattr 469
#endif

/* ---- flags and numbers ---- */

#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef CLONE_DETACHED
#define CLONE_DETACHED 0x00400000 /* no effect since Linux 2.6.2; clone(2) */
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_DENYWRITE
#define MAP_DENYWRITE 0x800
#endif
#ifndef KVM_EXIT_MEMORY_FAULT
#define KVM_EXIT_MEMORY_FAULT 39
#endif
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif
#ifndef PR_GET_MEMORY_MERGE
#define PR_GET_MEMORY_MERGE 68
#endif
#ifndef PR_TIMER_CREATE_RESTORE_IDS
#define PR_TIMER_CREATE_RESTORE_IDS 77
#endif
#ifndef PR_FUTEX_HASH
#define PR_FUTEX_HASH 78
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef S_IFMT /* linux/stat.h has the types of files, but not for a hosted build */
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFLNK 0120000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
#endif
#ifndef SHM_RDONLY /* linux/shm.h has it, and includes libc's unistd.h */
#define SHM_RDONLY 010000
#define SHM_RND 020000
#define SHM_REMAP 040000
#define SHM_EXEC 0100000
#endif
#ifndef X_OK /* unistd.h of libc */
#define X_OK 1
#define W_OK 2
#define R_OK 4
#endif
#ifndef ST_RDONLY /* include/linux/statfs.h, not for user space */
#define ST_RDONLY 1
#endif
#ifndef ST_NOEXEC /* include/linux/statfs.h, not for user space */
#define ST_NOEXEC 8
#endif
#ifndef S_ISVTX /* linux/stat.h has it, but not beside libc */
#define S_ISVTX 01000
#endif
#ifndef ST_NOSYMFOLLOW
#define ST_NOSYMFOLLOW 0x2000
#endif
#ifndef SEEK_CUR /* linux/fs.h has it, and much else */
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#endif
#ifndef AF_UNIX /* include/linux/socket.h and include/linux/net.h, not for user space */
#define AF_UNIX 1
#define SOCK_SEQPACKET 5
#define SOCK_CLOEXEC O_CLOEXEC
#define SOCK_NONBLOCK O_NONBLOCK
#define SCM_RIGHTS 1
#define SOCK_STREAM 1
#define MSG_PEEK 2
#define MSG_DONTWAIT 0x40
#define MSG_WAITALL 0x100
#define MSG_NOSIGNAL 0x4000
#define MSG_CMSG_CLOEXEC 0x40000000
#endif
#ifndef DT_UNKNOWN /* include/linux/fs_types.h, not for user space */
#define DT_UNKNOWN 0
#endif
#ifndef TIMER_ABSTIME /* linux/time.h has it, and libc's struct timespec */
#define TIMER_ABSTIME 1
#endif
#ifndef R_X86_64_RELATIVE /* arch/x86/include/asm/elf.h, not for user space */
#define R_X86_64_RELATIVE 8
#endif
#ifndef NT_SIGINFO /* "SIGI"; linux/elf.h has it in newer headers */
#define NT_SIGINFO 0x53494749
#endif
#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif
#ifndef ARCH_GET_CPUID
#define ARCH_GET_CPUID 0x1011
#endif

/* ---- structures ---- */

/* struct user_msghdr, struct mmsghdr and struct cmsghdr (include/linux/socket.h). Addresses are numbers, because
 * some are the payload's. */
struct kr_msghdr {
    u64 name;
    s32 namelen;
    u32 pad0;
    u64 iov, iovlen, control, controllen;
    u32 flags, pad1;
};
struct kr_mmsghdr {
    struct kr_msghdr hdr;
    u32 len, pad;
};
struct kr_cmsghdr {
    u64 len;
    s32 level, type;
};
_Static_assert(sizeof(struct kr_msghdr) == 56 && sizeof(struct kr_mmsghdr) == 64 &&
                   sizeof(struct kr_cmsghdr) == 16,
               "ABI of sendmsg(2)");
_Static_assert(sizeof(struct statfs) == 120, "ABI of statfs(2)");

#endif
