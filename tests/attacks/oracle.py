"""What the host sees of an attack: canaries outside of the container, and a watcher that looks at its processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from pathlib import Path

from helpers.runtime import cgroup_directories

#: KR_WINDOW_END, KR_EMPTY_PATH and KR_HOST_SYS of krun/native/machine/layout.h.
WINDOW_END = 0x6A0000000000
EMPTY_PATH = 0x6D0000000000
HOST_SYS = 0x6E0000000000
GAP = ((WINDOW_END, WINDOW_END + 4096, "---p"), (0x6D0000000000, 0x6D0000001000, "r--s"))
#: Files that no container may change, besides the canaries.
HOST_FILES = ("/proc/sys/kernel/core_pattern", "/dev/null", "/dev/kvm", "/dev/zero")


class Canaries:
    """A directory of the host with a file only root may read, one for all, and a directory where all may make files."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="krun-canaries-", dir="/tmp"))
        self.path.chmod(0o755)
        self.words = {name: secrets.token_hex(16) for name in ("secret", "public")}
        for name, mode in (("secret", 0o600), ("public", 0o644)):
            (self.path / name).write_text(self.words[name])
            (self.path / name).chmod(mode)
        (self.path / "drop").mkdir()
        (self.path / "drop").chmod(0o1777)
        self.before = self._state()

    def _state(self) -> dict[str, object]:
        state: dict[str, object] = {}
        for path in (self.path, *sorted(self.path.rglob("*"))):
            st = path.stat()
            text = path.read_bytes() if path.is_file() else b""
            state[str(path)] = (
                oct(st.st_mode),
                st.st_uid,
                st.st_gid,
                st.st_nlink,
                hashlib.sha256(text).hexdigest(),
            )
        for name in HOST_FILES:
            st = os.stat(name)
            text = b"" if name.startswith("/dev") else Path(name).read_bytes()
            state[name] = (oct(st.st_mode), st.st_rdev, hashlib.sha256(text).hexdigest())
        return state

    def problems(self, said: str) -> list[str]:
        """What happened to them; `said` is all that the container wrote."""
        found = [f"the contents of {name} came out" for name, word in self.words.items() if word in said]
        after = self._state()
        for name in sorted({*self.before, *after}):
            if self.before.get(name) != after.get(name):
                found.append(f"{name}: {self.before.get(name)} became {after.get(name)}")
        return found

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


COPY = "/memfd:krun-monitor (deleted)"
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Monitor:
    """The monitor's file: its identity and its contents."""

    def __init__(self, tree: Path) -> None:
        self.file = tree / "krun" / "native" / "krun-monitor"
        self.data = self.file.read_bytes()
        self.id = identity(self.file)
        self.digest = hashlib.sha256(self.data).digest()
        # What a container in a user namespace executes is a sealed copy of this file (krun/kvm/image.py).
        readable = tree / "krun" / "native" / "krun-monitor.readable"
        self.copy = readable.read_bytes() if readable.exists() else b""
        # krun itself, between its clone and its exec of the monitor.
        self.krun = {
            identity(p) for p in (tree / "build" / "bin" / "krun", Path("/usr/bin/python3")) if p.exists()
        }

    def unchanged(self) -> bool:
        return (
            hashlib.sha256(self.file.read_bytes()).digest() == self.digest and identity(self.file) == self.id
        )

    def is_copy(self, pid: int) -> bool:
        """Whether a process executes a sealed copy: whoever calls a file so has not got its contents."""
        with open(f"/proc/{pid}/exe", "rb") as exe:
            named = os.readlink(f"/proc/self/fd/{exe.fileno()}") == COPY
            return named and fcntl.fcntl(exe, fcntl.F_GET_SEALS) & SEALS == SEALS and exe.read() == self.copy


def identity(path: Path | str) -> tuple[int, int]:
    st = os.stat(path)
    return st.st_dev, st.st_ino


class Mapping:
    """A line of /proc/PID/maps."""

    def __init__(self, line: str) -> None:
        fields = line.split(maxsplit=5)
        self.line = line.strip()
        self.start, self.end = (int(x, 16) for x in fields[0].split("-"))
        self.permissions, self.offset, self.inode = fields[1], int(fields[2], 16), int(fields[4])
        major, minor = (int(x, 16) for x in fields[3].split(":"))
        self.device = os.makedev(major, minor)
        self.name = fields[5].strip() if len(fields) > 5 else ""


def mappings(pid: int) -> list[Mapping]:
    with open(f"/proc/{pid}/maps") as maps:
        return [Mapping(line) for line in maps]


class Watcher(threading.Thread):
    """Samples the processes of the cgroups whose names contain one of `ids` until it is stopped.

    A process is all right when its executable is the monitor's file or a sealed copy of it (or krun's own, on its way there), when the
    monitor's text and constants are those of its file, and when nothing of the monitor lies below the end of the
    guest's window, nothing at all in the gap behind it, and no file of the guest above (the kernel
    puts the rings of AIO where it likes).
    """

    def __init__(self, monitor: Monitor, ids: list[str]) -> None:
        super().__init__(daemon=True)
        self.monitor, self.ids = monitor, ids
        self.problems: set[str] = set()
        self.samples = self.texts = 0
        self._end = threading.Event()

    def stop(self) -> list[str]:
        self._end.set()
        self.join()
        return sorted(self.problems)

    def run(self) -> None:
        folders: list[str] = []
        turn = 0
        while not self._end.wait(0.004):
            # New cgroups appear with a second container; the walk is dear.
            if turn % 50 == 0 or not folders:
                folders = sorted({d for id in self.ids for d in cgroup_directories(id)})
            turn += 1
            for n, pid in enumerate(processes(folders)):
                try:
                    self.look(pid, text=(n + turn) % 8 == 0)
                except (OSError, ValueError):
                    continue  # it has ended, or executes just now

    def look(self, pid: int, *, text: bool) -> None:
        exe = identity(f"/proc/{pid}/exe")
        if exe in self.monitor.krun:
            return
        self.samples += 1
        if exe != self.monitor.id and not self.monitor.is_copy(pid):
            self.problems.add(f"process {pid} executes {os.readlink(f'/proc/{pid}/exe')}, not the monitor")
            return
        found = mappings(pid)
        wrong = {w for m in found if (w := self.wrong(m))}
        # A monitor that the kernel has placed wrongly ends by itself, before it maps anything of the guest; on a busy machine
        # that takes its time.
        for pause in (0.02, 0.2, 1) if wrong else ():
            time.sleep(pause)
            wrong &= {w for m in mappings(pid) if (w := self.wrong(m))}
        if text:
            wrong |= self.changed(pid, found)
        # What was read belongs to one program only if that is still the same.
        if wrong and identity(f"/proc/{pid}/exe") == exe:
            self.problems |= {f"process {pid}: {w}" for w in wrong}

    def own(self, m: Mapping) -> bool:
        """Whether this is a mapping that only the monitor has."""
        name = m.name.startswith(("[v", "anon_inode:kvm", "/memfd:krun"))
        return name or (m.device, m.inode) == self.monitor.id

    def wrong(self, m: Mapping) -> str:
        """What is wrong with a mapping of a monitor; empty if nothing is."""
        own = self.own(m)
        if m.start < WINDOW_END:
            if m.end > WINDOW_END:
                return f"a mapping crosses the window's end: {m.line}"
            if own or "x" in m.permissions:
                return f"a mapping of the monitor's below the window's end: {m.line}"
        elif (
            m.start == EMPTY_PATH
            and m.end == EMPTY_PATH + 4096
            and m.permissions == "r--s"
            and m.name.startswith("/dev/zero")
        ):
            return ""
        elif m.start < HOST_SYS:
            # Two pages of the monitor's that cannot be written: the fence, and its empty path (machine/layout.h).
            if (m.start, m.end, m.permissions) in GAP:
                return ""
            return f"a mapping in the gap behind the window: {m.line}"
        elif m.inode and not own and not m.name.endswith(("/board", "/[aio] (deleted)")):
            return f"a file above the window: {m.line}"
        elif "x" in m.permissions and not own:
            return f"executable memory that is not the monitor's: {m.line}"
        return ""

    def changed(self, pid: int, found: list[Mapping]) -> set[str]:
        """Where the monitor's text, and the constants right behind it, are not what its file says."""
        wrong, text_end = set(), 0
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for m in found:
                copy = m.name == COPY
                if not (copy or (m.device, m.inode) == self.monitor.id) or not (
                    m.permissions == "r-xp" or (m.permissions == "r--p" and m.start == text_end)
                ):
                    continue
                text_end = m.end if m.permissions == "r-xp" else 0
                memory.seek(m.start)
                there = memory.read(m.end - m.start)
                filed = (self.monitor.copy if copy else self.monitor.data)[m.offset : m.offset + len(there)]
                self.texts += 1
                if len(there) == m.end - m.start and there[: len(filed)] != filed:
                    wrong.add(f"the monitor's memory differs from its file: {m.line}")
        return wrong


def processes(folders: list[str]) -> list[int]:
    """The processes in these cgroups."""
    found: set[int] = set()
    for folder in folders:
        try:
            found.update(map(int, Path(folder, "cgroup.procs").read_text().split()))
        except OSError:
            continue
    return sorted(found)
