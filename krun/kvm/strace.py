"""A record of a system call as strace(1) writes it, and the names of calls and of classes of calls that strace's -e takes.

Kinds of arguments are those of native/table/syscalls.def, names of values those of krun/kvm/symbols.py.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import struct

from krun.errors import UsageError
from krun.kvm.calls import CALLS
from krun.kvm.symbols import ARGUMENTS, FAMILY, SIGNAL
from krun.kvm.watch import ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.kvm.watch import Record

NUMBERS = {name: number for number, (name, _, _) in CALLS.items()}
#: All calls, also those that the table does not have; the last number stands for all higher ones (native/process/observe.h).
EVERY = frozenset(range(512))
_KIND = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?")
_SIGNED = frozenset(("INT", "PID", "SIG", "CLK", "FD", "DFD", "ID", "NEWFD"))
_AT_FDCWD = -100
_TIMES = frozenset(("nanosleep", "clock_nanosleep", "clock_gettime", "clock_settime", "clock_getres"))
_CLASSES = {
    "signal": "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend "
    "rt_tgsigqueueinfo sigaltstack kill tkill tgkill pause signalfd signalfd4 pidfd_send_signal",
    "memory": "mmap mprotect munmap brk mremap msync mincore madvise mlock mlock2 munlock mlockall munlockall mbind "
    "set_mempolicy get_mempolicy migrate_pages move_pages pkey_mprotect pkey_alloc pkey_free remap_file_pages mseal "
    "memfd_create process_madvise shmat shmdt",
    "network": "socket connect accept accept4 sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown bind listen "
    "getsockname getpeername socketpair setsockopt getsockopt",
    "process": "clone clone3 fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill rt_sigqueueinfo "
    "pidfd_open pidfd_send_signal unshare setns",
    "ipc": "shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl",
    "creds": "getuid getgid geteuid getegid setuid setgid setreuid setregid setresuid getresuid setresgid getresgid "
    "setfsuid setfsgid getgroups setgroups capget capset prctl",
    "clock": "clock_gettime clock_settime clock_getres clock_nanosleep clock_adjtime gettimeofday settimeofday time adjtimex",
}


def numbers_of(words: list[str]) -> set[int]:
    """Return the numbers of the calls that strace's -e would choose: names, classes (%file), all; a "!" before the first word of an
    expression means all others; "trace=" before it has no meaning.

    Errors: UsageError for a word that is neither.
    """
    chosen: set[int] = set()
    for word in words:
        text = word.removeprefix("trace=")
        inverted = text.startswith("!")
        found: set[int] = set()
        for name in text.removeprefix("!").split(","):
            found |= _numbers(name)
        chosen |= EVERY - found if inverted else found
    return chosen if words else set(EVERY)


def _numbers(name: str) -> set[int]:
    if name == "all":
        return set(EVERY)
    if name in NUMBERS:
        return {NUMBERS[name]}
    kind = name.removeprefix("%")
    if kind in _CLASSES:
        return {NUMBERS[call] for call in _CLASSES[kind].split() if call in NUMBERS}
    if kind in ("file", "desc"):
        wanted = ("PATH",) if kind == "file" else ("FD", "DFD")
        return {n for n, (_, _, kinds) in CALLS.items() if set(kinds.split()).intersection(wanted)}
    classes = ", ".join(f"%{word}" for word in sorted((*_CLASSES, "file", "desc")))
    raise UsageError(f"unknown system call {name!r}: use names of calls, or one of {classes}")


def without_signals(words: list[str]) -> tuple[list[str], bool]:
    """Return strace's expressions without those on signals, and whether signals are asked for. Errors: UsageError."""
    signals, left = True, []
    for word in words:
        kind, _, value = word.rpartition("=")
        if kind in ("signal", "signals", "s"):
            if value not in ("none", "all", "!all"):
                raise UsageError(
                    f"unknown expression {word!r}: signals are shown with signal=all, or not with signal=none"
                )
            signals = value == "all"
        else:
            left.append(word)
    return left, signals


def errnos_of(words: list[str]) -> set[int]:
    """Return the numbers of errors given as names or numbers, all if there are none. Errors: UsageError."""
    found = set()
    for name in ",".join(words).split(","):
        number = {text: n for n, text in errno.errorcode.items()}.get(name.upper(), 0)
        if not number and name.isdecimal():
            number = int(name)
        if name and not 0 < number < 192:
            raise UsageError(f"unknown error {name!r}: use names as ENOENT")
        found.add(number)
    return found - {0} or set(range(1, 192))


def call_name(number: int) -> str:
    """Return the name of a call."""
    return CALLS[number][0] if number in CALLS else f"syscall_{number}"


def arguments(record: Record) -> list[str]:
    """Return the arguments as text."""
    name, _, kinds = CALLS.get(record.number, ("", "", "HEX HEX HEX HEX HEX HEX"))
    words = kinds.split()
    if name in ("open", "openat") and not record.args[len(words) - 2] & 0o20000100:
        words = words[:-1]  # no mode without O_CREAT or O_TMPFILE
    return [_argument(record, name, i, kind) for i, kind in enumerate(words)]


def _argument(record: Record, name: str, i: int, word: str) -> str:
    match = _KIND.fullmatch(word)
    kind = match[1] if match else word
    value = record.args[i]
    names = ARGUMENTS.get(name, {}).get(i)
    if names:
        return names.text(
            value & 0xFFFFFFFF if kind in _SIGNED or kind in ("UINT", "FLAGS", "MODE") else value
        )
    if i in record.items:
        return _item(record, name, i, kind)
    if kind in _SIGNED:
        number = value & 0xFFFFFFFF
        number -= (number >> 31) << 32
        return "AT_FDCWD" if kind == "DFD" and number == _AT_FDCWD else str(number)
    if kind == "UINT":
        return str(value & 0xFFFFFFFF)
    if kind == "MODE":
        return f"0{value & 0xFFFFFFFF:o}"
    if kind == "FLAGS":
        return hex(value & 0xFFFFFFFF) if value & 0xFFFFFFFF else "0"
    if kind == "LONG":
        return str(value - (value >> 63 << 64))
    if kind == "SIZE":
        return str(value)
    if kind in ("HEX", "ADDR", "ARG"):
        return hex(value) if value else ("0" if kind == "HEX" else "NULL")
    return hex(value) if value else "NULL"


def _item(record: Record, name: str, i: int, kind: str) -> str:
    data, total = record.items[i]
    if kind in ("STR", "PATH"):
        return quoted(data) + ("..." if total > len(data) else "")
    if (
        name in ("connect", "bind", "sendto")
        and kind == "INV"
        and i in (1, 4)
        and i != (1 if name == "sendto" else 4)
    ):
        return _address(data)
    if kind == "IOVEC":
        return f"[{quoted(data)}{'...' if total > len(data) else ''}, ...]"
    if name in _TIMES and kind in ("IN", "OUT") and len(data) == 16:
        seconds, nanoseconds = struct.unpack("<qq", data)
        return f"{{tv_sec={seconds}, tv_nsec={nanoseconds}}}"
    if name in ("wait4", "waitid") and len(data) == 4:
        return f"[{_status(int.from_bytes(data, 'little'))}]"
    if (
        kind in ("OUT", "IO")
        and len(data) in (4, 8)
        and name in ("pipe", "pipe2", "socketpair", "recvfrom", "accept", "accept4")
    ):
        return f"[{', '.join(map(str, struct.unpack(f'<{len(data) // 4}i', data)))}]"
    if kind in ("INV", "OUTV"):
        return quoted(data) + ("..." if total > len(data) else "")
    return hex(record.args[i])


def _status(status: int) -> str:
    if status & 0x7F == 0:
        return f"exited {status >> 8 & 0xFF}"
    if status & 0xFF == 0x7F:
        return f"stopped by {SIGNAL.text(status >> 8 & 0xFF)}"
    return f"killed by {SIGNAL.text(status & 0x7F)}"


def _address(data: bytes) -> str:
    family = int.from_bytes(data[:2], "little")
    if family == socket.AF_UNIX and len(data) > 2:
        path = data[2:] if data[2] == 0 else data[2:].split(b"\0")[0]
        return f"{{sa_family=AF_UNIX, sun_path={quoted(path)}}}"
    if family == socket.AF_INET and len(data) >= 8:
        port, address = int.from_bytes(data[2:4], "big"), socket.inet_ntop(socket.AF_INET, data[4:8])
        return f"{{sa_family=AF_INET, sin_port={port}, sin_addr={address}}}"
    if family == socket.AF_INET6 and len(data) >= 24:
        port, address = int.from_bytes(data[2:4], "big"), socket.inet_ntop(socket.AF_INET6, data[8:24])
        return f"{{sa_family=AF_INET6, sin6_port={port}, sin6_addr={address}}}"
    return f"{{sa_family={FAMILY.text(family)}, {quoted(data[2:])}}}"


_ESCAPES = {10: "\\n", 9: "\\t", 13: "\\r", 34: '\\"', 92: "\\\\"}
_SHOWN = [_ESCAPES.get(n) or (chr(n) if 32 <= n < 127 else f"\\x{n:02x}") for n in range(256)]


def quoted(data: bytes) -> str:
    """Return bytes in quotes, with C escapes: nothing of them reaches a terminal as it is."""
    return '"' + "".join([_SHOWN[byte] for byte in data]) + '"'


_CODES = {
    0: "SI_USER",
    0x80: "SI_KERNEL",
    -1: "SI_QUEUE",
    -2: "SI_TIMER",
    -3: "SI_MESGQ",
    -4: "SI_ASYNCIO",
    -5: "SI_SIGIO",
    -6: "SI_TKILL",
}
_FAULTS = {
    "SIGSEGV": "SEGV_MAPERR SEGV_ACCERR SEGV_BNDERR SEGV_PKUERR",
    "SIGBUS": "BUS_ADRALN BUS_ADRERR BUS_OBJERR BUS_MCEERR_AR BUS_MCEERR_AO",
    "SIGILL": "ILL_ILLOPC ILL_ILLOPN ILL_ILLADR ILL_ILLTRP ILL_PRVOPC ILL_PRVREG ILL_COPROC ILL_BADSTK",
    "SIGFPE": "FPE_INTDIV FPE_INTOVF FPE_FLTDIV FPE_FLTOVF FPE_FLTUND FPE_FLTRES FPE_FLTINV FPE_FLTSUB",
    "SIGTRAP": "TRAP_BRKPT TRAP_TRACE TRAP_BRANCH TRAP_HWBKPT",
    "SIGCHLD": "CLD_EXITED CLD_KILLED CLD_DUMPED CLD_TRAPPED CLD_STOPPED CLD_CONTINUED",
    "SIGSYS": "SYS_SECCOMP SYS_USER_DISPATCH",
    "SIGIO": "POLL_IN POLL_OUT POLL_MSG POLL_ERR POLL_PRI POLL_HUP",
}


def signal_name(number: int) -> str:
    """Return the name of a signal: those from 32 on have none but their distance to the first."""
    return f"SIGRT_{number - 32}" if number >= 32 else SIGNAL.text(number)


def signal_info(record: Record) -> dict[str, int | str]:
    """Return the fields of the siginfo_t of a signal's record, as sigaction(2) names them for its origin."""
    data = struct.pack("<6Q", *record.args)
    code = int.from_bytes(data[8:12], "little", signed=True)
    name = signal_name(record.number)
    names = _FAULTS.get(name, "").split()
    if code in _CODES or not 0 < code <= len(names):
        text = _CODES.get(code, str(code))
    else:
        text = names[code - 1]
    found: dict[str, int | str] = {"si_signo": name, "si_code": text}
    pid, uid, status = struct.unpack_from("<iIi", data, 16)
    if code == -2:
        found |= {"si_timerid": pid, "si_overrun": uid, "si_value": hex(record.args[3])}
    elif code > 0 and name == "SIGCHLD":
        how = status if code == 1 else signal_name(status & 0x7F)
        times = struct.unpack_from("<2q", data, 32)
        found |= {"si_pid": pid, "si_uid": uid, "si_status": how, "si_utime": times[0], "si_stime": times[1]}
    elif code > 0 and name == "SIGSYS":
        number = struct.unpack_from("<i", data, 24)[0]
        found |= {"si_call_addr": hex(record.args[2]), "si_syscall": call_name(number)}
    elif 0 < code < 0x80 and names and name != "SIGIO":
        found["si_addr"] = hex(record.args[2]) if record.args[2] else "NULL"
    elif code <= 0:
        found |= {"si_pid": pid, "si_uid": uid}
        if code == -1:
            found["si_value"] = hex(record.args[3])
    return found


def is_end(record: Record) -> bool:
    """Tell whether a thread ends with this record: exit or exit_group."""
    return record.gone and not record.kind & ~ENDS and call_name(record.number) in ("exit", "exit_group")


def failure(record: Record) -> str:
    """Return the name of the error of a call that has failed, else ""."""
    if record.gone or not -4096 < record.result < 0:
        return ""
    return {512: "ERESTARTSYS"}.get(-record.result) or errno.errorcode.get(
        -record.result, f"errno {-record.result}"
    )


def result(record: Record) -> str:
    """Return what stands behind the "=" of a line."""
    if record.gone:
        return "?"
    if record.result == -512:
        return "? ERESTARTSYS (to be restarted)"
    name = failure(record)
    if name:
        return f"-1 {name} ({os.strerror(-record.result)})"
    kinds = call_name(record.number)
    if kinds in ("mmap", "brk", "mremap", "shmat") or not -(1 << 24) < record.result < 1 << 24:
        return hex(record.result & (1 << 64) - 1)
    return str(record.result)
