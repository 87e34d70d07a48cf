"""The boot block (native/abi/boot.h), /dev/kvm, the exec of the monitor (its file: image.py).

`open_kvm` runs in the parent; `Block` and `start_monitor` run in the child.
"""

import os
from errno import ENOENT

from krun.errors import KrunError, SysError
from krun.kvm.remedy import KVM_PATH, kvm_remedy
from krun.mountio import (
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    OPEN_TREE_CLONE,
    mount_setattr,
    open_tree,
)
from krun.sysio import (
    AT_FDCWD,
    execveat,
    keep_over_exec,
    memfd,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = 0x544F4F424E55524B
VERSION = 1
ENV = b"KRUN_BOOT="

# enum kr_boot_tag; tests/unit/test_boot.py compares them with boot.h.
EXE_PATH = 1
STATE_JSON = 2
SECCOMP = 3
HOOK = 4
CPUID = 5
FD_KVM = 16
FD_EXE = 17
FD_PROC = 18
FD_SYNC = 19
FD_START = 20
FD_RESULT = 21
FD_TARGET = 22
FD_LOG = 23
FD_BOARD = 24
FD_RELAY = 26
FLAGS = 32
RLIMIT_STACK = 33
T0 = 34

FLAG_TRACE = 1
FLAG_COUNT = 2
FLAG_FIRST = 4
FLAG_LOCAL = 32
FLAG_RANDOM = 64
FLAG_SOCKETS = 128
FLAG_BOUND = 256
FLAG_NOTIFY = 512
FLAG_KILLABLE = 1024


class Block:
    """A boot block under construction."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 16

    def add(self, tag: int, data: bytes) -> None:
        """Appends a record of bytes."""
        padding = -len(data) % 8
        part = tag.to_bytes(2, "little") + b"\0\0" + len(data).to_bytes(4, "little") + data + bytes(padding)
        self._parts.append(part)
        self._size += len(part)

    def fd(self, tag: int, number: int) -> None:
        """Appends a descriptor and lets it live through the exec; a negative one is left out."""
        if number >= 0:
            keep_over_exec(number)
            self.add(tag, number.to_bytes(4, "little"))

    def number(self, tag: int, value: int) -> None:
        """Appends a 64-bit number."""
        self.add(tag, value.to_bytes(8, "little"))

    def hook(
        self, path: str, args: "Sequence[str]", env: "Sequence[str] | None", timeout: "int | None"
    ) -> None:
        """Appends a startContainer hook; without `env` it inherits the payload's environment."""
        head = b""
        for value in (timeout or 0, len(args), len(env or ()), 0 if env is None else 1):
            head += value.to_bytes(4, "little")
        words = [path, *args, *(env or ())]
        self.add(HOOK, head + b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words))

    def done(self) -> bytes:
        """Returns the finished block."""
        end = bytes(8)
        size = self._size + len(end)
        head = MAGIC.to_bytes(8, "little") + VERSION.to_bytes(4, "little") + size.to_bytes(4, "little")
        return b"".join((head, *self._parts, end))


def open_kvm(later: "list[int] | None" = None) -> int:
    """Opens /dev/kvm, before anything is made: the container's device rules would forbid it later.

    The monitor keeps the descriptor, and a payload that is root could reach the node through /proc/self/fd to change its mode or owner
    on the host. So it is opened on a read-only clone of its mount: a device can be written there, its inode cannot (EROFS).
    Without CAP_SYS_ADMIN it is opened plainly: such a caller does not own the node.

    Argument: later, a list that gets the clone's own descriptor; None: it is closed here. Its close waits for all CPUs (RCU): 0.5 ms,
    34 ms where a hundred commands want a CPU. So a command closes it while its child works.

    Returns the descriptor. Raises KrunError with cause and remedy.
    """
    try:
        clone = open_tree(AT_FDCWD, KVM_PATH, OPEN_TREE_CLONE)
        try:
            mount_setattr(clone, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, name=KVM_PATH)
            return os.open(f"/proc/self/fd/{clone}", os.O_RDWR | os.O_CLOEXEC)
        finally:
            if later is None:
                os.close(clone)
            else:
                later.append(clone)
    except (SysError, OSError):
        pass
    try:
        return os.open(KVM_PATH, os.O_RDWR | os.O_CLOEXEC)
    except OSError as e:
        number = e.errno or 0
    if number == ENOENT:
        raise KrunError(f"no KVM on this host: {KVM_PATH} does not exist; {kvm_remedy(number)}")
    raise SysError("open", KVM_PATH, number, kvm_remedy(number))


def pass_block(block: bytes) -> bytes:
    """Puts a boot block into a sealed memfd that lives through the exec. Returns the entry of the environment that names it."""
    boot = memfd("krun-boot", block)
    keep_over_exec(boot)
    return ENV + str(boot).encode()


def start_monitor(exe: int, block: bytes, argv: "list[bytes]", env: "list[bytes]") -> None:
    """Becomes the monitor by execveat(2). Argument: block, what pass_block has returned, the last entry of its environment.

    Returns only by raising SysError.
    """
    number = execveat(exe, argv, [*env, block])
    raise SysError("exec", "krun-monitor", number)
