"""What this host's KVM answers, kept for the next command: a file beside the containers' state.

KVM_GET_SUPPORTED_CPUID takes 0.3 ms where the host is a virtual machine, because the kernel asks the processor with CPUID, which then
leaves the VM. The answer goes to the monitor in the boot block. The file counts only if it is this user's and nobody else may read or
write it, and if it was made since the boot and since KVM was loaded last. No monitor and no container reaches it; a wrong answer would
be every container's.
"""

import os
from stat import S_ISREG

from krun.errors import KrunError
from krun.fileio import replace_file
from krun.kvm import boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from krun.log import Log

_MAGIC = b"KRUNKVM1"
#: No container has the name: "@" is in no id (oci.state.check_id).
_NAME = "@kvm"
_ENTRIES = 160  # as in native/machine/vm.c
_ENTRY = 40  # sizeof(struct kvm_cpuid_entry2)
_KVM_GET_SUPPORTED_CPUID = 0xC008AE05
_HEAD = 8 + 48 + 3 * 8
_TRIES = 3  # of the measurement, in a boot: what a caller's limits let fail is no answer for all
_PATIENCE = 200  # looks, 10 ms apart, while another command measures
#: An exit must cost more than this for `calls.local: auto`: less is what a call in the guest costs, with its bookkeeping.
DEAR_NS = 5000


class Known:
    """What is known of this host. cpuid: struct kvm_cpuid2 with its entries, b"" if KVM did not say; measured: whether the rest has been
    measured (kvm/measure.py), or failures are so many that it is given up; exit_ns: a system call that leaves the guest; own_ns: one that
    the guest's code completes, 0: it cannot."""

    __slots__ = ("cpuid", "measured", "failures", "exit_ns", "own_ns")

    def __init__(self) -> None:
        self.cpuid = b""
        self.measured = False
        self.failures = self.exit_ns = self.own_ns = 0

    def pays(self) -> bool:
        """Tells whether calls should be completed inside the guest here."""
        return 0 < self.own_ns < self.exit_ns and self.exit_ns > DEAR_NS


def _key() -> bytes:
    """Names this boot, and KVM as it was loaded last: its number in sysfs is never given twice. b"": cannot be told."""
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
        try:
            boot_id = os.read(fd, 64)
        finally:
            os.close(fd)
        number = os.stat("/sys/devices/virtual/misc/kvm").st_ino
    except OSError:
        return b""
    return boot_id[:36].ljust(40, b"\0") + number.to_bytes(8, "little")


def _read(path: str, key: bytes) -> "Known | None":
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        info = os.fstat(fd)
        if not S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
            return None
        data = os.read(fd, _HEAD + 8 + _ENTRIES * _ENTRY + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    if data[:56] != _MAGIC + key or not _is_cpuid(data[_HEAD:]):
        return None
    found = Known()
    found.cpuid = data[_HEAD:]
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(56, _HEAD, 8)]
    found.measured, found.failures = bool(words[0] & 1), words[0] >> 1
    found.exit_ns, found.own_ns = words[1:]
    return found


def _is_cpuid(data: bytes) -> bool:
    number = int.from_bytes(data[:4], "little")
    return 0 < number <= _ENTRIES and len(data) == 8 + number * _ENTRY


def _write(root: int, key: bytes, known: Known) -> None:
    """Keeps it; a failure costs time only."""
    data = _MAGIC + key
    for word in (known.failures << 1 | known.measured, known.exit_ns, known.own_ns):
        data += word.to_bytes(8, "little")
    try:
        replace_file(_NAME, data + known.cpuid, dir_fd=root)
    except OSError:
        pass


def _ask(kvm: int) -> bytes:
    """KVM_GET_SUPPORTED_CPUID (kvm.rst 4.46). b"": KVM refuses, and the monitor will say why."""
    from fcntl import ioctl

    data = bytearray(8 + _ENTRIES * _ENTRY)
    data[:4] = _ENTRIES.to_bytes(4, "little")
    try:
        ioctl(kvm, _KVM_GET_SUPPORTED_CPUID, data, True)
    except OSError:
        return b""
    found = bytes(data[: 8 + int.from_bytes(data[:4], "little") * _ENTRY])
    return found if _is_cpuid(found) else b""


def know(root: str, open_root: "Callable[[], int]", kvm: int, log: "Log", measured: bool = False) -> Known:
    """Returns what is known of this host, and asks KVM for what is missing.

    Arguments: root, the directory of all state; open_root, which makes and checks it (oci.state: StateDir); kvm, a descriptor of
    /dev/kvm; measured, whether to measure what exits cost, if nobody has done so yet: some 40 ms, once. Where no file can keep it,
    nothing is measured.
    """
    path, key = f"{root}/{_NAME}", _key()
    known = _read(path, key) if key else None
    if known is not None and (known.measured or not measured):
        return known
    if known is None:
        known = Known()
        known.cpuid = _ask(kvm)
    if not key or not known.cpuid:
        return known
    try:
        fd = open_root()  # that only we and root can change
    except (KrunError, OSError):
        return known  # the command says it, where it makes something there
    try:
        if measured:
            return _measured(fd, path, key, known, log)
        _write(fd, key, known)
    finally:
        os.close(fd)
    return known


def _measured(root: int, path: str, key: bytes, known: Known, log: "Log") -> Known:
    """Measures what exits cost, and keeps it. Of several commands one measures, and the others wait."""
    from fcntl import LOCK_EX, LOCK_NB, flock
    from time import sleep

    from krun.kvm import measure

    for _ in range(_PATIENCE):
        try:
            flock(root, LOCK_EX | LOCK_NB)
            break
        except BlockingIOError:
            sleep(0.01)
    found = _read(path, key)
    if found is not None and found.measured:
        return found
    try:
        known.exit_ns, known.own_ns = measure.exits()
        known.measured = True
    except (OSError, ValueError) as e:
        known.failures += 1
        known.measured = known.failures >= _TRIES
        text = f"measure what an exit costs: {e}; calls.local: auto means off"
        if known.measured:
            log.warning(f"{text} until the next boot")
        else:
            log.debug(text)
    _write(root, key, known)
    return known


def local_flags(local: str, sockets: str, known: "Known | None") -> int:
    """Returns FLAG_LOCAL if system calls are to be completed inside the guest, with FLAG_SOCKETS if those on TCP sockets are, too; else 0.

    Arguments: local, sockets, the administrator's calls.local and calls.sockets, or "off" where the container's annotation says so;
    known, what was measured, for the word "auto".
    """
    if local == "off" or (local == "auto" and (known is None or not known.pays())):
        return 0
    return boot.FLAG_LOCAL | (boot.FLAG_SOCKETS if sockets == "on" else 0)
