"""Numbers and structures of the relay (oci/relay.py): those of the kernel (seccomp_unotify(2)), those of the monitors; an asked call."""

import os
import struct
from errno import EBADF

from krun.sysio import lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# native/abi/notify.h; tests/unit/test_relay.py compares.
BASE = 0x10000000
LAST = 0x13FFFFFF
CALL = 0
MOVED = 1
DONE = 2
PASS = 0x8E5E000000000000
AGAIN = 0x8E5E000000000001
MOVE = 0x8E5E400000000000
CLOEXEC = 0x0000200000000000
FD_BITS = 22
RESERVED = 0x8E5E  # upper 16 bits

# include/uapi/linux/seccomp.h
RECV = 0xC0502100
SEND = 0xC0182101
ID_VALID = 0x40082102
ADDFD = 0x40182103
CONTINUE = 1
SETFD = 1
SEND_NOW = 2
NOTIF = struct.Struct("=QIIiIQ6Q")
RESP = struct.Struct("=QqiI")
STRUCT_ADDFD = struct.Struct("=QIIII")

# Calls by which a monitor serves others, and which it makes only then: `served` of native/filter/profile.c, by number.
# tests/unit/test_relay.py compares.
# fmt: off
SERVED_BY: "dict[int, tuple[int, ...]]" = {
    2: (161,),  # open: chroot
    31: (30,),  # shmctl: shmat
    54: (41,),  # setsockopt: socket
    67: (30,),  # shmdt: shmat
    150: (151, 152),  # munlock: mlockall, munlockall
    188: (189,),  # setxattr: lsetxattr
    191: (192,),  # getxattr: lgetxattr
    194: (195,),  # listxattr: llistxattr
    197: (198,),  # removexattr: lremovexattr
    207: (206,),  # io_destroy: io_setup
    218: (56, 435, 59, 322, 60, 57, 58),  # set_tid_address: clone, clone3, execve, execveat, exit, fork, vfork
    258: (83,),  # mkdirat: mkdir
    259: (133,),  # mknodat: mknod
    260: (92, 94),  # fchownat: chown, lchown
    261: (132, 235),  # futimesat: utime, utimes
    262: (6, 332),  # newfstatat: lstat, statx
    265: (86,),  # linkat: link
    266: (88,),  # symlinkat: symlink
    268: (90, 452),  # fchmodat: chmod, fchmodat2
    289: (282,),  # signalfd4: signalfd
    316: (82, 264),  # renameat2: rename, renameat
    424: (438, 440),  # pidfd_send_signal: pidfd_getfd, process_madvise
    444: (49,),  # landlock_create_ruleset: bind
    445: (49, 446),  # landlock_add_rule: bind, landlock_restrict_self
    446: (49,),  # landlock_restrict_self: bind
    463: (188, 189),  # setxattrat: setxattr, lsetxattr
    464: (191, 192),  # getxattrat: getxattr, lgetxattr
    465: (194, 195),  # listxattrat: listxattr, llistxattr
    466: (197, 198),  # removexattrat: removexattr, lremovexattr
}
# fmt: on


class Note:
    """A call of the payload that the agent is asked about. id: the agent's number for it; kernel: that of the thread's present wait,
    0: it does not wait just now; told: the agent has received it; later: what is done when the thread waits again, or with False
    when it will not; deadline: when that is looked at, 0: it waits; until: when at last it will not; moving: the request whose descriptor
    the thread moves, with its flags."""

    __slots__ = (
        "id", "kernel", "thread", "tag", "nr", "arch", "args", "told", "later", "deadline", "until", "moving",
    )  # fmt: skip

    def __init__(
        self, number: int, thread: int, tag: int, nr: int, arch: int, args: "tuple[int, ...]"
    ) -> None:
        self.id = self.kernel = number
        self.thread = thread
        self.tag = tag
        self.nr = nr
        self.arch = arch
        self.args = args
        self.told = False
        self.later: list[Callable[[bool], None]] = []
        self.deadline = self.until = 0.0
        self.moving: tuple[int, int] | None = None


def _status(thread: int, name: str) -> int:
    try:
        with open(f"/proc/{thread}/status", "rb") as file:
            for line in file:
                key, _, value = line.partition(b":")
                if key == name.encode():
                    return int(value.split()[0])
    except (OSError, ValueError):
        pass
    return -1


def process_of(thread: int) -> int:
    """Returns the process of a thread, -1 if it is gone."""
    return _status(thread, "Tgid")


def take(thread: int, number: int) -> int:
    """Returns a duplicate of a descriptor of the agent's, or -errno. number: of 32 bits, as the agent gives it."""
    pid = process_of(thread) if thread else -1
    if pid < 0 or number >> 31:  # a negative one, to the kernel
        return -EBADF
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as e:
        return -(e.errno or EBADF)
    try:
        return int(lib.kr_pidfd_getfd(pidfd, number))
    finally:
        os.close(pidfd)
