/* SPDX-License-Identifier: Apache-2.0
 *
 * The boot block: the contract between a monitor and the program that starts it. krun/kvm/boot.py starts the
 * monitor of the first program of a container or of an exec, process/exec.c that of every execve of the payload.
 *
 * Layout, little endian, in a memfd:
 *   struct kr_boot_header, then records { struct kr_boot_record, `len` bytes, zero padding to 8 }.
 * Only trusted code writes the block; the parser checks bounds all the same. KR_BOOT_ENV says what makes the block
 * authentic. docs/architecture.md, "Boot block". A change of a number in this file raises KR_BOOT_VERSION.
 */
#ifndef KR_ABI_BOOT_H
#define KR_ABI_BOOT_H

#include <stddef.h>
#include <stdint.h>

#define KR_BOOT_MAGIC 0x544f4f424e55524bULL /* "KRUNBOOT" */
#define KR_BOOT_VERSION 1

/* The monitor finds the block through the last entry of its environment:
 *   KRUN_BOOT=<decimal fd>  krun writes it: a memfd with all seals holds the block. Refused where the jail is in
 *                           force, that is in every process that comes from a payload.
 *   KRUN_BOOT=@<n>          a monitor writes it: the n entries KRUN_BOOT=<base64> before this one are the block. It
 *                           is no descriptor, because the payload's threads could replace the file under one. All
 *                           strings of that execve are in the monitor's memory, so the last one is the monitor's.
 * Any other value ends the process. */
#define KR_BOOT_ENV "KRUN_BOOT="

struct kr_boot_header {
    uint64_t magic;
    uint32_t version;
    uint32_t size; /* bytes of the whole block, header included */
};

struct kr_boot_record {
    uint16_t tag;   /* enum kr_boot_tag */
    uint16_t flags; /* 0 */
    uint32_t len;   /* bytes that follow, without the padding */
};

enum kr_boot_tag {
    KR_BOOT_END = 0,
    /* Bytes, no terminating NUL. */
    KR_BOOT_EXE_PATH = 1,   /* the program, as resolved in the container; becomes AT_EXECFN for a plain ELF */
    KR_BOOT_STATE_JSON = 2, /* OCI state for startContainer hooks' stdin */
    KR_BOOT_SECCOMP = 3,    /* struct sock_filter[]; may stand several times, evaluated newest first */
    KR_BOOT_HOOK = 4, /* startContainer hook: u32 timeout in s (0: none), u32 argc, u32 envc, u32 has_env,
                         then path\0, argc args\0..., envc env\0... */
    KR_BOOT_CPUID =
        5, /* struct kvm_cpuid2 of krun (kvm/host.py) or of an ancestor, to spare KVM_GET_SUPPORTED_CPUID */
    KR_BOOT_DOMAINS =
        6, /* u64[]: the names of the landlock domains of the thread that executes (process/domain.h); absent: none; internal
              to the monitor */
    KR_BOOT_FAULTS =
        7, /* struct kr_fault_signals (process/signal.h); absent: all zero; internal to the monitor */
    KR_BOOT_CLOCK =
        8, /* struct kr_vdso_rate (machine/vdso.h): the rate of the clock that an ancestor measured; internal to the
              monitor */
    KR_BOOT_IDS =
        10, /* struct kr_exec_ids (process/exec.h); absent: the effective ids are the real ones; internal to the
               monitor */
    /* One int32_t each: descriptors, open in the new process. */
    KR_BOOT_FD_KVM = 16,    /* /dev/kvm, O_RDWR */
    KR_BOOT_FD_EXE = 17,    /* the monitor's own executable, read-only clone or sealed memfd */
    KR_BOOT_FD_PROC = 18,   /* root of a procfs of the container's pid namespace (detached mount) */
    KR_BOOT_FD_SYNC = 19,   /* SOCK_SEQPACKET to `krun create`/`exec`/`run`; absent after an execve */
    KR_BOOT_FD_START = 20,  /* start.fifo, O_RDWR; absent: run at once */
    KR_BOOT_FD_RESULT = 21, /* result.fifo, O_RDWR */
    KR_BOOT_FD_TARGET = 22, /* the program, already opened by execve; absent: open EXE_PATH */
    KR_BOOT_FD_LOG = 23,    /* where trace and warnings of the monitor go; absent: nowhere */
    KR_BOOT_FD_BOARD =
        24, /* the container's board, O_RDWR (process/board.h); absent: other processes are not asked */
    KR_BOOT_FD_INTERP = 25, /* the ELF interpreter of FD_TARGET; internal to the monitor */
    KR_BOOT_FD_RELAY = 26,  /* socket that gets the listener of KR_BOOTF_NOTIFY; absent after an execve */
    /* One uint64_t each. */
    KR_BOOT_FLAGS = 32, /* KR_BOOTF_* */
    KR_BOOT_RLIMIT_STACK =
        33, /* soft limit to restore after the exec (none above KR_EXEC_STACK can stand during it: it would
               put the monitor into the guest's window, mmap_base() and mmap_is_legacy() in arch/x86) */
    KR_BOOT_T0 = 34, /* CLOCK_MONOTONIC ns when krun began, for stage times; 0: unknown */
    KR_BOOT_VM_TYPE =
        35, /* enum kr_entry_kind found by an ancestor, to spare the probe; internal to the monitor */
    KR_BOOT_FD_PLACE =
        36, /* where the monitor's fixed descriptors and slots are (machine/fdtab.h); internal to the monitor */
    /* st_dev and st_ino of the monitor's file; internal to the monitor. */
    KR_BOOT_EXE_DEV = 37,
    KR_BOOT_EXE_INO = 38,
    KR_BOOT_PERSONALITY =
        39, /* the bits of the payload's personality(2) that the host's has not (KR_PERSONA_OWN); absent: 0 */
    KR_BOOT_WATCHED =
        48, /* the board's word for which the process is traced (process/observe.h); absent: not decided; internal to the monitor */
    KR_BOOT_NOFILE_HARD = 40, /* kr_proc's nofile_hard; internal to the monitor */
};

#define KR_BOOTF_TRACE 1u /* strace-like trace to FD_LOG */
#define KR_BOOTF_COUNT 2u /* per-call counts and times to FD_LOG at exit */
#define KR_BOOTF_FIRST 4u /* first program of a container or exec (not an execve of the payload) */
#define KR_BOOTF_NNP 8u   /* the payload has no_new_privs itself (the host's flag is set for every monitor) */
#define KR_BOOTF_JAILED                                                                                      \
    16u /* the filters of filter/jail.c are on; only in the block of a monitor that has them */
#define KR_BOOTF_LOCAL 32u    /* calls are completed inside the guest where that is exact (local/local.h) */
#define KR_BOOTF_RANDOM 64u   /* with KR_BOOTF_LOCAL, for tests: each entry of the guest decides at random */
#define KR_BOOTF_SOCKETS 128u /* with KR_BOOTF_LOCAL: calls on TCP sockets, too (local/sockets.h) */
#define KR_BOOTF_BOUND 256u   /* FD_LOG ends at 64 MiB (process/log.c) */
#define KR_BOOTF_NOTIFY 512u  /* the oldest filter, the profile, has a listener (abi/notify.h) */
#define KR_BOOTF_KILLABLE 1024u /* with KR_BOOTF_NOTIFY: SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV */

_Static_assert(sizeof(struct kr_boot_header) == 16, "boot header is ABI; see docs/architecture.md");
_Static_assert(sizeof(struct kr_boot_record) == 8, "boot record is ABI; see docs/architecture.md");

#endif
