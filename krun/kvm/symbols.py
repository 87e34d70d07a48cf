"""Names of the values that arguments of system calls have, for `krun trace`: THE table, by call and argument.

tests/unit/test_symbols.py compares each name with the kernel's headers.
"""

from __future__ import annotations


class Names:
    """How the values of an argument are shown.

    one: names of whole values; with a mask, of the bits in it (O_RDWR of the open flags). bits: names of bits; rest: of the value
    without the mask.
    """

    __slots__ = ("one", "bits", "mask")

    def __init__(
        self, one: dict[str, int] | None = None, bits: dict[str, int] | None = None, mask: int = ~0
    ) -> None:
        self.one = {value: name for name, value in (one or {}).items()}
        self.bits = bits or {}
        self.mask = mask

    def text(self, value: int) -> str:
        """Return the names, joined by "|"; what has no name as a number."""
        words = []
        rest = value
        if self.one:
            part = value & self.mask
            if part in self.one:
                words.append(self.one[part])
                rest = value & ~self.mask
            elif not self.bits:
                return str(value)
        for name, bit in self.bits.items():
            if rest & bit == bit:
                words.append(name)
                rest &= ~bit
        if rest or not words:
            words.append(hex(rest) if rest else "0")
        return "|".join(words)


def _row(text: str) -> dict[str, int]:
    """Return names with their values: "NAME=VALUE", or NAME for the value after that of the name before."""
    found: dict[str, int] = {}
    value = -1
    for word in text.split():
        name, _, number = word.partition("=")
        value = int(number, 0) if number else value + 1
        found[name] = value
    return found


OPEN = Names(
    one=_row("O_RDONLY=0 O_WRONLY O_RDWR"),
    mask=3,
    bits=_row(
        "O_CREAT=0o100 O_EXCL=0o200 O_NOCTTY=0o400 O_TRUNC=0o1000 O_APPEND=0o2000 O_NONBLOCK=0o4000 O_SYNC=0o4010000 "
        "O_DSYNC=0o10000 O_DIRECT=0o40000 O_LARGEFILE=0o100000 O_TMPFILE=0o20200000 O_DIRECTORY=0o200000 "
        "O_NOFOLLOW=0o400000 O_NOATIME=0o1000000 O_CLOEXEC=0o2000000 O_PATH=0o10000000"
    ),
)
AT = Names(
    bits=_row(
        "AT_SYMLINK_NOFOLLOW=0x100 AT_REMOVEDIR=0x200 AT_SYMLINK_FOLLOW=0x400 AT_NO_AUTOMOUNT=0x800 AT_EMPTY_PATH=0x1000 "
        "AT_STATX_FORCE_SYNC=0x2000 AT_STATX_DONT_SYNC=0x4000"
    )
)
AT_EACCESS = Names(bits=_row("AT_EACCESS=0x200 AT_SYMLINK_NOFOLLOW=0x100 AT_EMPTY_PATH=0x1000"))
ACCESS = Names(one=_row("F_OK=0"), bits=_row("R_OK=4 W_OK=2 X_OK=1"))
STATX = Names(
    one=_row("STATX_BASIC_STATS=0x7ff STATX_ALL=0xfff"),
    bits=_row(
        "STATX_TYPE=1 STATX_MODE=2 STATX_NLINK=4 STATX_UID=8 STATX_GID=0x10 STATX_ATIME=0x20 STATX_MTIME=0x40 "
        "STATX_CTIME=0x80 STATX_INO=0x100 STATX_SIZE=0x200 STATX_BLOCKS=0x400 STATX_BTIME=0x800"
    ),
)
SEEK = Names(_row("SEEK_SET=0 SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE"))
PROT = Names(one=_row("PROT_NONE=0"), bits=_row("PROT_READ=1 PROT_WRITE=2 PROT_EXEC=4"))
MAP = Names(
    one=_row("MAP_SHARED=1 MAP_PRIVATE MAP_SHARED_VALIDATE"),
    mask=0xF,
    bits=_row(
        "MAP_FIXED=0x10 MAP_ANONYMOUS=0x20 MAP_32BIT=0x40 MAP_GROWSDOWN=0x100 MAP_DENYWRITE=0x800 MAP_LOCKED=0x2000 "
        "MAP_NORESERVE=0x4000 MAP_POPULATE=0x8000 MAP_NONBLOCK=0x10000 MAP_STACK=0x20000 MAP_HUGETLB=0x40000 "
        "MAP_FIXED_NOREPLACE=0x100000"
    ),
)
MREMAP = Names(bits=_row("MREMAP_MAYMOVE=1 MREMAP_FIXED=2 MREMAP_DONTUNMAP=4"))
MSYNC = Names(bits=_row("MS_ASYNC=1 MS_INVALIDATE=2 MS_SYNC=4"))
MADV = Names(
    _row(
        "MADV_NORMAL=0 MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE=8 MADV_REMOVE MADV_DONTFORK "
        "MADV_DOFORK MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE MADV_DONTDUMP MADV_DODUMP "
        "MADV_WIPEONFORK MADV_KEEPONFORK MADV_COLD MADV_PAGEOUT MADV_POPULATE_READ MADV_POPULATE_WRITE"
    )
)
SIGNAL = Names(
    _row(
        "SIGHUP=1 SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM "
        "SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF "
        "SIGWINCH SIGIO SIGPWR SIGSYS"
    )
)
SIG_HOW = Names(_row("SIG_BLOCK=0 SIG_UNBLOCK SIG_SETMASK"))
CLONE = Names(
    one={"SIGCHLD": 17},
    mask=0xFF,
    bits=_row(
        "CLONE_VM=0x100 CLONE_FS=0x200 CLONE_FILES=0x400 CLONE_SIGHAND=0x800 CLONE_PIDFD=0x1000 CLONE_PTRACE=0x2000 "
        "CLONE_VFORK=0x4000 CLONE_PARENT=0x8000 CLONE_THREAD=0x10000 CLONE_NEWNS=0x20000 CLONE_SYSVSEM=0x40000 "
        "CLONE_SETTLS=0x80000 CLONE_PARENT_SETTID=0x100000 CLONE_CHILD_CLEARTID=0x200000 CLONE_DETACHED=0x400000 "
        "CLONE_UNTRACED=0x800000 CLONE_CHILD_SETTID=0x1000000 CLONE_NEWCGROUP=0x2000000 CLONE_NEWUTS=0x4000000 "
        "CLONE_NEWIPC=0x8000000 CLONE_NEWUSER=0x10000000 CLONE_NEWPID=0x20000000 CLONE_NEWNET=0x40000000 "
        "CLONE_IO=0x80000000"
    ),
)
NAMESPACES = Names(bits={**CLONE.bits, "CLONE_NEWTIME": 0x80})
WAIT = Names(
    bits=_row(
        "WNOHANG=1 WUNTRACED=2 WEXITED=4 WCONTINUED=8 WNOWAIT=0x1000000 __WNOTHREAD=0x20000000 __WALL=0x40000000"
    )
)
P_TYPE = Names(_row("P_ALL=0 P_PID P_PGID P_PIDFD"))
FAMILY = Names(
    {
        **_row("AF_UNSPEC=0 AF_UNIX AF_INET"),
        **_row("AF_INET6=10 AF_NETLINK=16 AF_PACKET AF_ALG=38 AF_VSOCK=40"),
    }
)
SOCK = Names(
    one=_row("SOCK_STREAM=1 SOCK_DGRAM SOCK_RAW SOCK_RDM SOCK_SEQPACKET"),
    mask=0xF,
    bits=_row("SOCK_NONBLOCK=0o4000 SOCK_CLOEXEC=0o2000000"),
)
SOCK_FLAGS = Names(bits=_row("SOCK_NONBLOCK=0o4000 SOCK_CLOEXEC=0o2000000"))
MSG = Names(
    bits=_row(
        "MSG_OOB=1 MSG_PEEK=2 MSG_DONTROUTE=4 MSG_CTRUNC=8 MSG_TRUNC=0x20 MSG_DONTWAIT=0x40 MSG_EOR=0x80 MSG_WAITALL=0x100 "
        "MSG_ERRQUEUE=0x2000 MSG_NOSIGNAL=0x4000 MSG_MORE=0x8000 MSG_WAITFORONE=0x10000 MSG_ZEROCOPY=0x4000000 "
        "MSG_FASTOPEN=0x20000000 MSG_CMSG_CLOEXEC=0x40000000"
    )
)
SHUT = Names(_row("SHUT_RD=0 SHUT_WR SHUT_RDWR"))
SOL = Names(
    _row("SOL_IP=0 SOL_SOCKET=1 SOL_TCP=6 SOL_UDP=17 SOL_IPV6=41 SOL_RAW=255 SOL_PACKET=263 SOL_NETLINK=270")
)
FCNTL = Names(
    {
        **_row(
            "F_DUPFD=0 F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN F_SETSIG F_GETSIG"
        ),
        **_row(
            "F_OFD_GETLK=36 F_OFD_SETLK F_OFD_SETLKW F_SETLEASE=1024 F_GETLEASE F_NOTIFY F_DUPFD_CLOEXEC=1030"
        ),
        **_row("F_SETPIPE_SZ=1031 F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS"),
    }
)
IOCTL = Names(
    _row(
        "TCGETS=0x5401 TCSETS TCSETSW TCSETSF TIOCSCTTY=0x540e TIOCGPGRP TIOCSPGRP TIOCGWINSZ=0x5413 TIOCSWINSZ "
        "FIONREAD=0x541b FIONBIO=0x5421 TIOCNOTTY TIOCGSID=0x5429 FIONCLEX=0x5450 FIOCLEX FIOASYNC SIOCGIFCONF=0x8912 "
        "SIOCGIFFLAGS SIOCGIFINDEX=0x8933"
    )
)
FUTEX = Names(
    one=_row(
        "FUTEX_WAIT=0 FUTEX_WAKE FUTEX_FD FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_LOCK_PI FUTEX_UNLOCK_PI "
        "FUTEX_TRYLOCK_PI FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET FUTEX_WAIT_REQUEUE_PI FUTEX_CMP_REQUEUE_PI FUTEX_LOCK_PI2"
    ),
    mask=0x7F,
    bits=_row("FUTEX_PRIVATE_FLAG=0x80 FUTEX_CLOCK_REALTIME=0x100"),
)
EPOLL_CTL = Names(_row("EPOLL_CTL_ADD=1 EPOLL_CTL_DEL EPOLL_CTL_MOD"))
EPOLL_CREATE = Names(bits=_row("EPOLL_CLOEXEC=0o2000000"))
EVENTFD = Names(bits=_row("EFD_SEMAPHORE=1 EFD_NONBLOCK=0o4000 EFD_CLOEXEC=0o2000000"))
SIGNALFD = Names(bits=_row("SFD_NONBLOCK=0o4000 SFD_CLOEXEC=0o2000000"))
TIMERFD = Names(bits=_row("TFD_NONBLOCK=0o4000 TFD_CLOEXEC=0o2000000"))
TIMER_SET = Names(bits=_row("TFD_TIMER_ABSTIME=1 TFD_TIMER_CANCEL_ON_SET=2"))
INOTIFY = Names(bits=_row("IN_NONBLOCK=0o4000 IN_CLOEXEC=0o2000000"))
PIPE = Names(bits=_row("O_NONBLOCK=0o4000 O_DIRECT=0o40000 O_CLOEXEC=0o2000000"))
CLOCK = Names(
    _row(
        "CLOCK_REALTIME=0 CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID CLOCK_MONOTONIC_RAW "
        "CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM"
    )
)
CLOCK_SLEEP = Names(bits=_row("TIMER_ABSTIME=1"))
ITIMER = Names(_row("ITIMER_REAL=0 ITIMER_VIRTUAL ITIMER_PROF"))
RLIMIT = Names(
    _row(
        "RLIMIT_CPU=0 RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC RLIMIT_NOFILE "
        "RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME"
    )
)
PRIORITY = Names(_row("PRIO_PROCESS=0 PRIO_PGRP PRIO_USER"))
SCHED = Names(_row("SCHED_OTHER=0 SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE=5 SCHED_DEADLINE"))
PRCTL = Names(
    {
        **_row(
            "PR_SET_PDEATHSIG=1 PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_GET_KEEPCAPS=7 PR_SET_KEEPCAPS"
        ),
        **_row("PR_SET_NAME=15 PR_GET_NAME PR_GET_SECCOMP=21 PR_SET_SECCOMP PR_CAPBSET_READ PR_CAPBSET_DROP"),
        **_row("PR_SET_SECUREBITS=28 PR_SET_TIMERSLACK PR_SET_CHILD_SUBREAPER=36 PR_GET_CHILD_SUBREAPER"),
        **_row("PR_SET_NO_NEW_PRIVS=38 PR_GET_NO_NEW_PRIVS PR_SET_THP_DISABLE=41 PR_CAP_AMBIENT=47"),
        "PR_SET_VMA": 0x53564D41,
    }
)
ARCH = Names(_row("ARCH_SET_GS=0x1001 ARCH_SET_FS ARCH_GET_FS ARCH_GET_GS"))
RANDOM = Names(bits=_row("GRND_NONBLOCK=1 GRND_RANDOM=2 GRND_INSECURE=4"))
MEMFD = Names(bits=_row("MFD_CLOEXEC=1 MFD_ALLOW_SEALING=2 MFD_HUGETLB=4 MFD_NOEXEC_SEAL=8 MFD_EXEC=0x10"))
RENAME = Names(bits=_row("RENAME_NOREPLACE=1 RENAME_EXCHANGE=2 RENAME_WHITEOUT=4"))
FALLOCATE = Names(bits=_row("FALLOC_FL_KEEP_SIZE=1 FALLOC_FL_PUNCH_HOLE=2 FALLOC_FL_COLLAPSE_RANGE=8"))
FLOCK = Names(one=_row("LOCK_SH=1 LOCK_EX LOCK_UN=8"), mask=0xB, bits=_row("LOCK_NB=4"))
MOUNT = Names(
    bits=_row(
        "MS_RDONLY=1 MS_NOSUID=2 MS_NODEV=4 MS_NOEXEC=8 MS_SYNCHRONOUS=0x10 MS_REMOUNT=0x20 MS_NOATIME=0x400 MS_BIND=0x1000 "
        "MS_MOVE=0x2000 MS_REC=0x4000 MS_SILENT=0x8000 MS_UNBINDABLE=0x20000 MS_PRIVATE=0x40000 MS_SLAVE=0x80000 "
        "MS_SHARED=0x100000 MS_RELATIME=0x200000"
    )
)
UMOUNT = Names(bits=_row("MNT_FORCE=1 MNT_DETACH=2 MNT_EXPIRE=4 UMOUNT_NOFOLLOW=8"))
SECCOMP = Names(
    _row("SECCOMP_SET_MODE_STRICT=0 SECCOMP_SET_MODE_FILTER SECCOMP_GET_ACTION_AVAIL SECCOMP_GET_NOTIF_SIZES")
)

#: Call: for each argument that has names, its number and the names.
ARGUMENTS: dict[str, dict[int, Names]] = {
    "open": {1: OPEN},
    "openat": {2: OPEN},
    "access": {1: ACCESS},
    "faccessat": {2: ACCESS},
    "faccessat2": {2: ACCESS, 3: AT_EACCESS},
    "newfstatat": {3: AT},
    "statx": {2: AT, 3: STATX},
    "unlinkat": {2: AT},
    "linkat": {4: AT},
    "fchownat": {4: AT},
    "fchmodat2": {3: AT},
    "utimensat": {3: AT},
    "execveat": {4: AT},
    "renameat2": {4: RENAME},
    "lseek": {2: SEEK},
    "fcntl": {1: FCNTL},
    "ioctl": {1: IOCTL},
    "flock": {1: FLOCK},
    "fallocate": {1: FALLOCATE},
    "dup3": {2: PIPE},
    "pipe2": {1: PIPE},
    "mmap": {2: PROT, 3: MAP},
    "mprotect": {2: PROT},
    "pkey_mprotect": {2: PROT},
    "mremap": {3: MREMAP},
    "msync": {2: MSYNC},
    "madvise": {2: MADV},
    "memfd_create": {1: MEMFD},
    "rt_sigaction": {0: SIGNAL},
    "rt_sigprocmask": {0: SIG_HOW},
    "kill": {1: SIGNAL},
    "tkill": {1: SIGNAL},
    "tgkill": {2: SIGNAL},
    "rt_sigqueueinfo": {1: SIGNAL},
    "rt_tgsigqueueinfo": {2: SIGNAL},
    "pidfd_send_signal": {1: SIGNAL},
    "signalfd4": {3: SIGNALFD},
    "clone": {0: CLONE},
    "unshare": {0: NAMESPACES},
    "setns": {1: NAMESPACES},
    "wait4": {2: WAIT},
    "waitid": {0: P_TYPE, 3: WAIT},
    "socket": {0: FAMILY, 1: SOCK},
    "socketpair": {0: FAMILY, 1: SOCK},
    "accept4": {3: SOCK_FLAGS},
    "sendto": {3: MSG},
    "recvfrom": {3: MSG},
    "sendmsg": {2: MSG},
    "recvmsg": {2: MSG},
    "sendmmsg": {3: MSG},
    "recvmmsg": {3: MSG},
    "shutdown": {1: SHUT},
    "setsockopt": {1: SOL},
    "getsockopt": {1: SOL},
    "futex": {1: FUTEX},
    "epoll_ctl": {1: EPOLL_CTL},
    "epoll_create1": {0: EPOLL_CREATE},
    "eventfd2": {1: EVENTFD},
    "inotify_init1": {0: INOTIFY},
    "timerfd_create": {0: CLOCK, 1: TIMERFD},
    "timerfd_settime": {1: TIMER_SET},
    "clock_gettime": {0: CLOCK},
    "clock_getres": {0: CLOCK},
    "clock_settime": {0: CLOCK},
    "clock_nanosleep": {0: CLOCK, 1: CLOCK_SLEEP},
    "timer_create": {0: CLOCK},
    "getitimer": {0: ITIMER},
    "setitimer": {0: ITIMER},
    "getrlimit": {0: RLIMIT},
    "setrlimit": {0: RLIMIT},
    "prlimit64": {1: RLIMIT},
    "getpriority": {0: PRIORITY},
    "setpriority": {0: PRIORITY},
    "sched_setscheduler": {1: SCHED},
    "prctl": {0: PRCTL},
    "arch_prctl": {0: ARCH},
    "getrandom": {2: RANDOM},
    "mount": {3: MOUNT},
    "umount2": {1: UMOUNT},
    "seccomp": {0: SECCOMP},
}
