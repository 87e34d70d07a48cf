"""The guest fuzzer: a hostile payload (guest_fuzz.c) in a krun container, under the sanitizer build of the monitor.

`./dev fuzz [SECONDS] [SEED...]` runs it for SECONDS (default 60) in all, some 30 seconds a seed. It fails if a monitor ended by its own
words ("fatal": a broken invariant or undefined behaviour) or status, if a process outlives SIGKILL, if the monitor's constant memory
(text, rodata) changed in a process that still runs, or if a file outside of the container is not what it was.

The container bounds what the payload can do to the machine: namespaces of its own (user namespace excepted, as with runc), a read-only
root with nothing in it but the program, default capabilities, limits for processes, memory, files and time.
"""

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers.bundle import Bundle  # noqa: E402

BUILD = ROOT / "build" / "fuzz"
SLICE = 30
#: Docker's default set.
CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL"
    ).split()
]
#: Files of the host that nothing in a container may change: contents, mode, owner, device number.
HOST_FILES = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sysrq-trigger",
    "/dev/null",
    "/dev/kvm",
    "/dev/zero",
    str(BUILD / "canary"),
    str(BUILD / "tree" / "krun" / "native" / "krun-monitor"),
)


@dataclasses.dataclass
class Outcome:
    """What one slice gave."""

    seed: int
    status: int
    said: str
    problems: list[str]


def build() -> None:
    """Builds the sanitizer monitor, a tree of krun that uses it, and the payload."""
    from krun.native import build_native

    monitor = build_native.build_ubsan_monitor()
    tree = BUILD / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT / "krun", tree / "krun", ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.h"))
    shutil.copy2(monitor, tree / "krun" / "native" / "krun-monitor")
    # Only the log: a trace of the payload's calls would cost too much.
    launch = tree / "krun" / "oci" / "launch.py"
    text = launch.read_text()
    assert "boot.FLAG_TRACE | boot.FLAG_COUNT" in text
    launch.write_text(text.replace("boot.FLAG_TRACE | boot.FLAG_COUNT", "0"))
    launcher = BUILD / "krun"
    # As the launcher of ./dev setup, with another first place to look.
    places = [str(tree), *map(str, (ROOT / ".venv" / "lib").glob("python3*/site-packages"))]
    launcher.write_text(
        f"#!/usr/bin/python3 -IS\nimport sys\nsys.path += {places!r}\nfrom krun.__main__ import main\nsys.exit(main())\n"
    )
    launcher.chmod(0o755)
    (BUILD / "canary").write_text("not the container's\n")
    flags = "-static -O1 -g -pthread -Wall -Wextra -Wno-clobbered -Wno-format-nonliteral".split()
    subprocess.run(["gcc", *flags, "-o", BUILD / "guest_fuzz", HERE / "guest_fuzz.c"], check=True)


def bundle(work: Path, seed: int, seconds: float) -> Path:
    """Writes the bundle; returns its directory."""
    path = work / "bundle"
    shutil.rmtree(path, ignore_errors=True)
    root = path / "rootfs"
    for name in ("proc", "dev", "sys", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    shutil.copy2(BUILD / "guest_fuzz", root / "guest_fuzz")
    made = Bundle(path, root=root)
    made.config["root"]["readonly"] = True
    made.mount("/tmp", "tmpfs", "nosuid", "nodev", "size=16m", "mode=1777", type="tmpfs")
    made.args("/guest_fuzz", str(seed), str(seconds))
    for name in made.process["capabilities"]:
        made.process["capabilities"][name] = CAPABILITIES
    made.process["rlimits"] = [
        {"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 4096},
        {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
        {"type": "RLIMIT_FSIZE", "soft": 1 << 24, "hard": 1 << 24},
        {"type": "RLIMIT_RTPRIO", "soft": 0, "hard": 0},
        {"type": "RLIMIT_MEMLOCK", "soft": 1 << 20, "hard": 1 << 20},
        {"type": "RLIMIT_MSGQUEUE", "soft": 1 << 16, "hard": 1 << 16},
    ]
    made.linux["resources"].update(
        {"pids": {"limit": 200}, "memory": {"limit": 512 << 20}, "cpu": {"shares": 128}}
    )
    made.write()
    return path


def host_state() -> dict[str, object]:
    state: dict[str, object] = {}
    for name in filter(os.path.exists, HOST_FILES):
        st = os.stat(name)
        text = b"" if name.startswith("/dev") or "sysrq" in name else Path(name).read_bytes()
        # Other runtimes that run on the machine may change the owner of /dev/null (crun 1.8 does).
        owner = () if name == "/dev/null" else (st.st_uid, st.st_gid)
        state[name] = (oct(st.st_mode), *owner, st.st_rdev, hashlib.sha256(text).hexdigest())
    return state


def constant_memory(pid: int) -> dict[str, str]:
    """Hashes of the monitor's text (and constants, which lie there) in a process: offset in the file -> hash."""
    found, text_end = {}, 0
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                fields = line.split()
                # The executable lies on a detached mount, so its name is "/": it is told by its place.
                start, end = (int(x, 16) for x in fields[0].split("-"))
                text = fields[1] == "r-xp"
                if (
                    start < 0x6A0000000000
                    or fields[4] == "0"
                    or not (text or fields[1] == "r--p" and start == text_end)
                ):
                    continue
                text_end = end if text else 0
                memory.seek(start)
                data = memory.read(end - start)
                if len(data) < end - start:
                    return {}  # it ends or executes something just now
                found[fields[2]] = hashlib.sha256(data).hexdigest()
    except OSError:
        return {}
    return found


def descendants(pid: int) -> list[int]:
    """The container's processes, by its init's pid namespace."""
    try:
        space = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.readlink(f"/proc/{name}/ns/pid") == space:
                    found.append(int(name))
            except OSError:
                pass
    return found


def run_slice(seed: int, seconds: float) -> Outcome:
    """One container with one seed."""
    work = BUILD / f"run-{seed}"
    work.mkdir(parents=True, exist_ok=True)
    log = work / "log"
    log.unlink(missing_ok=True)
    path = bundle(work, seed, seconds)
    name = f"fuzz-{os.getpid()}-{seed}"
    krun = [str(BUILD / "krun"), "--root", str(work / "state")]
    before, problems, text_of = host_state(), [], {}
    pid_file = work / "pid"
    pid_file.unlink(missing_ok=True)
    out = work / "out"
    with out.open("wb") as sink:
        process = subprocess.Popen(
            [*krun, "run", "--trace", str(log), "--pid-file", str(pid_file), "--bundle", str(path), name],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
        end = time.monotonic() + seconds + 90
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.5)
            if pid_file.exists() and (text := pid_file.read_text()).strip():
                for pid in descendants(int(text))[:8]:
                    for where, digest in constant_memory(pid).items():
                        # Twice: a process may end or begin anew between maps and memory.
                        if text_of.setdefault(where, digest) != digest == constant_memory(pid).get(where):
                            problems.append(
                                f"seed {seed}: the monitor's memory at {where} differs in process {pid}"
                            )
        if process.poll() is None:
            problems.append(f"seed {seed}: hangs")
            subprocess.run([*krun, "kill", name, "KILL"], check=False, capture_output=True, timeout=60)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        subprocess.run([*krun, "delete", "--force", name], check=False, capture_output=True, timeout=60)
    said = out.read_text(errors="replace")[-2000:]
    words = log.read_text(errors="replace") if log.exists() else ""
    problems += sorted({line for line in words.splitlines() if "fatal" in line})
    if process.returncode != 0:
        problems.append(f"seed {seed}: status {process.returncode}: {said.strip()}")
    if not text_of:
        problems.append(f"seed {seed}: no monitor's memory was seen")
    after = host_state()
    problems += [
        f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name]
    ]
    if not problems:
        shutil.rmtree(work, ignore_errors=True)
    return Outcome(seed, process.returncode, said.strip(), problems)


def main(argv: list[str]) -> int:
    seconds = float(argv[0]) if argv else 60
    seeds = [int(a) for a in argv[1:]]
    build()
    bad, done, n = 0, 0.0, 0
    while done < seconds:
        seed = seeds[n] if n < len(seeds) else int(time.time()) * 100 + n
        part = min(SLICE, seconds - done)
        outcome = run_slice(seed, part)
        print(f"seed {seed}: {outcome.said}", *outcome.problems, sep="\n  ", flush=True)
        bad += bool(outcome.problems)
        done += part
        n += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
