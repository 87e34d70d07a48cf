"""The system calls that the monitor refuses, and why.

Written by tools/gen_docs.py from krun/native/table/syscalls.def: change that.
"""

#: Number: name, errno, reason.
REFUSALS = {
    101: (
        "ptrace",
        "EPERM",
        "the tracer would see the other monitor's registers and memory",
    ),
    134: (
        "uselib",
        "ENOSYS",
        "removed from Linux",
    ),
    154: (
        "modify_ldt",
        "ENOSYS",
        "as a kernel without CONFIG_MODIFY_LDT_SYSCALL: no 16- and 32-bit code",
    ),
    156: (
        "_sysctl",
        "ENOSYS",
        "removed from Linux",
    ),
    172: (
        "iopl",
        "EPERM",
        "no I/O ports in the VM",
    ),
    173: (
        "ioperm",
        "EPERM",
        "no I/O ports in the VM",
    ),
    174: (
        "create_module",
        "ENOSYS",
        "removed from Linux",
    ),
    175: (
        "init_module",
        "EPERM",
        "modules belong to the host's kernel",
    ),
    176: (
        "delete_module",
        "EPERM",
        "modules belong to the host's kernel",
    ),
    177: (
        "get_kernel_syms",
        "ENOSYS",
        "removed from Linux",
    ),
    178: (
        "query_module",
        "ENOSYS",
        "removed from Linux",
    ),
    180: (
        "nfsservctl",
        "ENOSYS",
        "removed from Linux",
    ),
    181: (
        "getpmsg",
        "ENOSYS",
        "never implemented in Linux",
    ),
    182: (
        "putpmsg",
        "ENOSYS",
        "never implemented in Linux",
    ),
    183: (
        "afs_syscall",
        "ENOSYS",
        "never implemented in Linux",
    ),
    184: (
        "tuxcall",
        "ENOSYS",
        "never implemented in Linux",
    ),
    185: (
        "security",
        "ENOSYS",
        "never implemented in Linux",
    ),
    205: (
        "set_thread_area",
        "ENOSYS",
        "not on x86-64",
    ),
    211: (
        "get_thread_area",
        "ENOSYS",
        "not on x86-64",
    ),
    212: (
        "lookup_dcookie",
        "ENOSYS",
        "removed from Linux",
    ),
    214: (
        "epoll_ctl_old",
        "ENOSYS",
        "never implemented in Linux",
    ),
    215: (
        "epoll_wait_old",
        "ENOSYS",
        "never implemented in Linux",
    ),
    219: (
        "restart_syscall",
        "EINTR",
        "EINTR, as in Linux if no call is to be restarted; restarts happen inside the host's kernel",
    ),
    236: (
        "vserver",
        "ENOSYS",
        "never implemented in Linux",
    ),
    246: (
        "kexec_load",
        "EPERM",
        "the kernel belongs to the host",
    ),
    298: (
        "perf_event_open",
        "EACCES",
        "would measure the monitor; the errno is that of a kernel whose perf_event_paranoid forbids the call",
    ),
    313: (
        "finit_module",
        "EPERM",
        "modules belong to the host's kernel",
    ),
    320: (
        "kexec_file_load",
        "EPERM",
        "the kernel belongs to the host",
    ),
    321: (
        "bpf",
        "EPERM",
        "its attributes hold pointers, and its programs run in the host's kernel",
    ),
    323: (
        "userfaultfd",
        "ENOSYS",
        "the faults would occur in the monitor and in KVM, not in the payload",
    ),
    330: (
        "pkey_alloc",
        "ENOSPC",
        "as on a CPU without protection keys",
    ),
    331: (
        "pkey_free",
        "EINVAL",
        "as on a CPU without protection keys",
    ),
    334: (
        "rseq",
        "ENOSYS",
        "the kernel would compare the monitor's instruction pointer; C libraries work without rseq",
    ),
    335: (
        "uretprobe",
        "ENOSYS",
        "only a trampoline that the kernel has mapped for a probe may make the call",
    ),
    336: (
        "uprobe",
        "ENOSYS",
        "only a trampoline that the kernel has mapped for a probe may make the call",
    ),
    425: (
        "io_uring_setup",
        "ENOSYS",
        "its ring carries raw pointers that the monitor cannot check",
    ),
    426: (
        "io_uring_enter",
        "ENOSYS",
        "see io_uring_setup",
    ),
    427: (
        "io_uring_register",
        "ENOSYS",
        "see io_uring_setup",
    ),
    447: (
        "memfd_secret",
        "ENOSYS",
        "KVM cannot map its pages",
    ),
    453: (
        "map_shadow_stack",
        "EOPNOTSUPP",
        "as on a CPU without shadow stacks",
    ),
}
