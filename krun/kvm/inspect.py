"""The threads of a payload's process as `krun debug` shows them, read from the host: native/process/inspect.h has the way.

Nothing in the process takes part, and nothing of it is believed: addresses are read in the process itself, with bounds, and what is not
there is left out. A thread that sleeps is only looked at. One that runs in the guest gets one signal (SIGBUS with the contents of a
kick), which its monitor takes for itself.
"""

from __future__ import annotations

import bisect
import ctypes
import errno
import os
import re
import struct
import time

from krun.fileio import split_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"krun-inspect-01\0"
_TABLE = struct.Struct("<16sQ10I")
REGISTERS = tuple("rax rbx rcx rdx rsi rdi rsp rbp r8 r9 r10 r11 r12 r13 r14 r15 rip rflags".split())
_KICK = 0x6B72756E71756965  # KR_QUIESCE_KICK (native/process/quiesce.h)
_SIGBUS, _SI_QUEUE, _RT_TGSIGQUEUEINFO = 7, -1, 297
_KICK_S = 0.2  # a thread that the processor does not run leaves the guest later
WINDOW_END = 0x6A0000000000
THREADS, FRAMES, STACK = (
    4096,
    32,
    256,
)  # bounds of what is shown: threads of a process, frames, bytes of the stack
UNHEARD = 3  # threads of a process that are waited for in vain: it is frozen or stopped
NO_CALL = (1 << 64) - 1
_PAGE = 4096


class Mapping:
    """A line of /proc/PID/maps in the payload's part of the memory."""

    __slots__ = ("start", "end", "offset", "flags", "name")

    def __init__(self, start: int, end: int, offset: int, flags: str, name: str) -> None:
        self.start, self.end, self.offset, self.flags, self.name = start, end, offset, flags, name


class Process:
    """One process of a container, by its number on the host."""

    def __init__(self, pid: int) -> None:
        """Open the process. Errors: OSError: it has ended, or the caller may not trace it."""
        self.pid = pid
        self._unheard = 0
        self.folder, self._memory = _open(pid)
        self._pages = -1
        try:
            self._pages = os.open(f"{self.folder}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            self.maps, self._table = self._read_maps()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the process's memory."""
        os.close(self._memory)
        if self._pages >= 0:
            os.close(self._pages)
            self._pages = -1

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the process: fewer bytes, or none, where it has no more. Of the payload's only pages that are in memory or
        in swap: the kernel would fetch others from the payload's file, and nothing, not even SIGKILL, ends the wait for a FUSE server.
        """
        try:
            if address < WINDOW_END:
                size = self._present(address, size)
            return os.pread(self._memory, size, address)
        except (OSError, OverflowError, ValueError):
            return b""

    def _present(self, address: int, size: int) -> int:
        """Return how many of these bytes are on pages with bit 63 or 62 (Documentation/admin-guide/mm/pagemap.rst). Errors: OSError."""
        first = address // _PAGE
        data = os.pread(self._pages, 8 * ((address + size - 1) // _PAGE - first + 1), 8 * first)
        count = 0
        for (entry,) in struct.iter_unpack("<Q", data):
            if not entry >> 62:
                break
            count += 1
        return max(0, min(size, (first + count) * _PAGE - address))

    def _read_maps(self) -> tuple[list[Mapping], tuple[int, ...]]:
        found, own, executed = [], [], set()
        with open(f"{self.folder}/maps", errors="replace", newline="\n") as file:
            for line in file:
                match = re.match(r"(\w+)-(\w+) (\S+) (\w+) (\S+ \d+) *(.*)", line)
                if not match:
                    continue
                start, end, offset = int(match[1], 16), int(match[2], 16), int(match[4], 16)
                if end <= WINDOW_END:
                    found.append(Mapping(start, end, offset, match[3], printable(match[6])))
                elif not match[5].endswith(" 0"):
                    own.append((match[5], start, min(end - start, 1 << 20)))
                    if "x" in match[3]:
                        executed.add(match[5])
        # The monitor's own file, and no other: the ring of `krun trace` on the board has what payloads write.
        for file_id, start, size in own:
            data = self.read(start, size) if file_id in executed else b""
            at = data.find(MAGIC)
            if at >= 0 and at + _TABLE.size <= len(data):
                return found, _TABLE.unpack_from(data, at)[1:]
        return found, ()

    def name_of(self, address: int) -> str:
        """Return the file of an address and the offset in it, as "libc.so.6+0x1234"; "" where nothing is mapped."""
        m = self._mapping(address)
        return f"{m.name or '[anonymous]'}+{address - m.start + m.offset:#x}" if m else ""

    def _mapping(self, address: int) -> Mapping | None:
        # A payload has up to 65530 mappings and thousands of threads, whose frames lead where it likes.
        at = bisect.bisect_right(self.maps, address, key=lambda m: m.start) - 1
        return self.maps[at] if at >= 0 and address < self.maps[at].end else None

    def threads(self) -> list[dict[str, Any]]:
        """Return what is known of each thread, by its number on the host."""
        tasks = self._tasks()
        found = []
        try:
            numbers = sorted(int(name) for name in os.listdir(f"/proc/{self.pid}/task"))
        except OSError:
            return []
        for tid in numbers[:THREADS]:
            inside = last_number(_text(f"/proc/{self.pid}/task/{tid}/status"), "NSpid")
            task = tasks.get(inside)
            if task:  # else a thread of KVM or of the monitor
                found.append(self._thread(tid, inside, task))
        return found

    def _tasks(self) -> dict[int, int]:
        """Return the addresses of the monitor's tasks by the numbers of their threads, as the process sees them."""
        found: dict[int, int] = {}
        if self._table:
            mm, first, following, number = self._table[:4]
            task = self._word(mm + first)
            seen: set[int] = set()
            while task > WINDOW_END and len(seen) < THREADS and task not in seen:
                seen.add(task)
                found[int.from_bytes(self.read(task + number, 4), "little")] = task
                task = self._word(task + following)
        return found

    def _word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    def _thread(self, tid: int, inside: int, task: int) -> dict[str, Any]:
        _, _, _, _, run_at, nr_at, args_at, runs_at, _, _, fs_at = self._table
        folder = f"/proc/{self.pid}/task/{tid}"
        number = self._word(task + nr_at)
        begun = int.from_bytes(self.read(task + runs_at, 4), "little") == 1
        fresh = number != NO_CALL or (begun and self._kick(tid, task))
        registers = self._registers(task)
        number = self._word(task + nr_at)
        fs = self._word(self._word(task + run_at) + fs_at)
        return {
            "tid": inside,
            "hostTid": tid,
            "name": printable(_text(f"{folder}/comm").strip()),
            "state": _field(_text(f"{folder}/status"), "State"),
            "call": None if number == NO_CALL else number & 0xFFFFFFFF,
            "args": []
            if number == NO_CALL
            else list(struct.unpack("<6Q", self.read(task + args_at, 48).ljust(48, b"\0"))),
            "registers": {**dict(zip(REGISTERS, registers, strict=False)), "fs_base": fs},
            "begun": begun,
            "fresh": fresh,
            "wait": _text(f"{folder}/wchan").strip("0\n") or None,
            "kernelStack": [
                line.split("] ")[-1].split("+")[0] for line in split_lines(_text(f"{folder}/stack"))
            ][:16],
            "stack": self.read(registers[6], STACK)
            if len(registers) > 6 and registers[6] < WINDOW_END
            else b"",
            "frames": self._frames(registers),
        }

    def _registers(self, task: int) -> tuple[int, ...]:
        """Return the registers as they were when the thread left the guest; () if they cannot be read."""
        run = self._word(task + self._table[4])
        size = 8 * len(REGISTERS)
        for _ in range(100):  # the thread may be leaving the guest right now
            data = self.read(run + self._table[9], size)
            if data == self.read(run + self._table[9], size):
                break
        return struct.unpack(f"<{len(REGISTERS)}Q", data) if len(data) == size else ()

    def _kick(self, tid: int, task: int) -> bool:
        """Make a thread leave the guest for a moment, so that its registers are those of now. Returns whether it has."""
        if self._unheard >= UNHEARD:
            return False
        pending, _, limit = _field(_text(f"/proc/{self.pid}/status"), "SigQ").partition("/")
        # Beyond that limit the kernel would send a SIGBUS without contents (__send_signal_locked()), which is the payload's.
        if not pending.isdigit() or not limit.isdigit() or int(pending) + 16 > int(limit):
            return False
        # The memory that was read just now is that of the process, so the number is still its own: another process gets a number
        # only after all others have been given out.
        before = self.read(task + self._table[8], 4)
        if len(before) < 4:  # ended, or behind an execve: another process may have the number by now
            return False
        info = struct.pack("<iiixxxxiiQ", _SIGBUS, 0, _SI_QUEUE, 0, 0, _KICK).ljust(128, b"\0")
        if ctypes.CDLL(None, use_errno=True).syscall(
            _RT_TGSIGQUEUEINFO, self.pid, tid, _SIGBUS, ctypes.create_string_buffer(info, 128)
        ):
            return False
        end = time.monotonic() + _KICK_S
        while self.read(task + self._table[8], 4) == before:
            if time.monotonic() > end:
                self._unheard += 1
                return False
            time.sleep(0.0005)
        return True

    def _frames(self, registers: tuple[int, ...]) -> list[int]:
        """Return the addresses of the calls: rip, then what the chain of frame pointers leads to, as far as it looks like one."""
        if not registers:
            return []
        found, frame, low = [registers[16]], registers[7], registers[6]
        while len(found) < FRAMES and low <= frame < WINDOW_END - 16 and frame % 8 == 0:
            data = self.read(frame, 16)
            if len(data) < 16:
                break
            following, back = struct.unpack("<QQ", data)
            m = self._mapping(back)
            if m is None or not m.name.startswith(("/", "[")):
                break
            found.append(back)
            if following <= frame:
                break
            frame = following
        return found


def _open(pid: int) -> tuple[str, int]:
    """Return the folder in /proc of a thread that has the process's memory, and a descriptor of the memory: the first thread may have
    ended before the others, and has none then. Errors: OSError."""
    for tid in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):
        folder = f"/proc/{pid}/task/{tid}"
        if _field(_text(f"{folder}/status"), "State")[:1] in ("Z", "X", ""):
            continue
        try:
            return folder, os.open(f"{folder}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except (ProcessLookupError, FileNotFoundError):
            continue
    raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def printable(text: str) -> str:
    """Return the text without what a terminal obeys."""
    return "".join(c if " " <= c < "\x7f" else "?" for c in text)


def _text(path: str) -> str:
    """Return a file of /proc, "" if it cannot be read. The kernel escapes \\n in a name, and no other end of a line."""
    try:
        with open(path, errors="replace", newline="\n") as file:
            return file.read(1 << 20)  # as long as Groups of status can be
    except OSError:
        return ""


def _field(status: str, name: str) -> str:
    for line in split_lines(status):
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return ""


def last_number(status: str, name: str) -> int:
    """Return the last number of a line of /proc/PID/status, 0 if there is none. status: as read without other line ends than \\n."""
    words = _field(status, name).split()
    return int(words[-1]) if words and words[-1].isdigit() else 0
