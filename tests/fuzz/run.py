"""The guest fuzzer: a hostile payload (guest_fuzz.c and its families) in a krun container, under the sanitizer build of the monitor.

`./dev fuzz [SECONDS] [SEED...]` runs it for SECONDS (default 60) in all, some 30 seconds a seed, then the attacks of tests/attacks with
longer times. It fails if a monitor ended by its own words ("fatal": a broken invariant or undefined behaviour) or status, if its filter ended it,
if a process outlives SIGKILL, if the payload saw what it must not see (fuzz.h), or if the oracle of the attacks speaks (tests/attacks/oracle.py). From
outside, `krun exec` and `krun create` into the container's pid namespace run against it all the time.

The container bounds what the payload can do to the machine: namespaces of its own (user namespace excepted, as with runc), a read-only
root with nothing in it but the program, limits for processes, memory, files and time. The seed says who the payload is (KINDS), and whether calls are completed inside the guest.
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from attacks import attacks  # noqa: E402
from attacks.oracle import Canaries, Monitor, Watcher, identity  # noqa: E402
from helpers.bundle import Bundle  # noqa: E402

BUILD = ROOT / "build" / "fuzz"
SLICE = 30
#: The statuses of fuzz.h: what the payload saw.
SAW = {
    96: "native code",
    97: "memory above the window",
    98: "a descriptor of the monitor's",
    99: "a file of the host",
}
#: By seed: user, capabilities, whether it has podman's default seccomp profile.
KINDS = (
    (attacks.ROOT_USER, False),
    (attacks.ROOT_USER, False),
    (attacks.ROOT_USER, True),
    (attacks.USER, True),
)
#: What the kernel's audit writes of a monitor that made a call which its filter does not allow. The names are those of the payload's programs.
REFUSED = re.compile(r'type=1326 .* comm="(?:guest_fuzz|elf\d|l\d|exe)" exe="/" sig=31 .* syscall=(\d+)')
#: krun's report of a monitor that has ended by its own words.
ENDED = re.compile(r"the monitor of process \d+ ended: (.*)")
#: docs/limits.md: SIGKILL of a process ends those that share its memory, with the monitor's status, in these two cases.
SHARED_A_DEATH = (
    "a process that shares this process's memory (CLONE_VM) was killed while it made a descriptor",
    "a process was killed inside a call that replaces the memory",
)
#: Time for each attack of the table after the fuzzing, in seconds.
ATTACK_SECONDS = 20


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
    for name in ("krun-monitor", "krun-monitor.readable"):
        shutil.copy2(monitor, tree / "krun" / "native" / name)
    # Only the log: a trace of the payload's calls would cost too much.
    launch = tree / "krun" / "oci" / "container.py"
    text = launch.read_text()
    assert "boot.FLAG_TRACE | boot.FLAG_COUNT" in text
    launch.write_text(text.replace("boot.FLAG_TRACE | boot.FLAG_COUNT", "0"))
    # As the launcher of ./dev setup, with another first place to look, and other settings for the second.
    places = [str(tree), *map(str, (ROOT / ".venv" / "lib").glob("python3*/site-packages"))]
    settings = BUILD / "krun.yaml"
    settings.write_text("calls: {local: on, sockets: on}\n")
    settings.chmod(0o644)
    for name, first in (
        ("krun", ""),
        ("krun-local", f"from krun import settings\nsettings.PATH = {str(settings)!r}\n"),
    ):
        launcher = BUILD / name
        launcher.write_text(
            f"#!/usr/bin/python3 -IS\nimport sys\nsys.path += {places!r}\n{first}from krun.__main__ import main\nsys.exit(main())\n"
        )
        launcher.chmod(0o755)
    flags = "-static -Wl,-e,fuzz_entry -O1 -g -pthread -Wall -Wextra -Wno-clobbered -Wno-format-nonliteral -Wno-unused-result".split()
    sources = sorted(p for p in HERE.glob("*.c") if p.name != "ubsan.c")
    subprocess.run(["gcc", *flags, "-o", BUILD / "guest_fuzz", *sources], check=True)


def bundle(work: Path, seed: int, seconds: float, canaries: Canaries, monitor: Monitor) -> Bundle:
    """The bundle, written."""
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
    user, filtered = KINDS[seed % len(KINDS)]
    made.process["user"] = {"uid": user.uid, "gid": user.uid}
    for name in made.process["capabilities"]:
        held = user.uid == 0 or name == "bounding"
        made.process["capabilities"][name] = list(user.capabilities) if held else []
    if filtered:
        made.linux["seccomp"] = attacks.profile.default(list(user.capabilities))
    made.process["env"] += [f"FUZZ_CANARIES={canaries.path}"]
    for key, (device, inode) in (("MONITOR", monitor.id), ("CANARY", identity(canaries.path / "public"))):
        made.process["env"].append(f"FUZZ_{key}={device}:{inode}")
    made.process["rlimits"] = [
        {"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 4096},
        {"type": "RLIMIT_CORE", "soft": 0, "hard": 4 << 20},
        {"type": "RLIMIT_FSIZE", "soft": 1 << 24, "hard": 1 << 24},
        {"type": "RLIMIT_RTPRIO", "soft": 0, "hard": 0},
        {"type": "RLIMIT_MEMLOCK", "soft": 1 << 20, "hard": 1 << 20},
        {"type": "RLIMIT_MSGQUEUE", "soft": 1 << 16, "hard": 1 << 16},
    ]
    made.linux["resources"].update(
        {"pids": {"limit": 200}, "memory": {"limit": 512 << 20}, "cpu": {"shares": 128}}
    )
    made.write()
    return made


class Outside:
    """What runs against the container from the host: `exec`, and `create` into its pid namespace, again and again.

    The payload may kill or disturb all of it; but nothing may hang, and nothing that was executed may see what it must not see.
    """

    def __init__(self, krun: list[str], name: str, seed: int, work: Path, root: Path, pid_file: Path) -> None:
        self.krun, self.name, self.seed, self.work, self.root = krun, name, seed, work, root
        self.pid_file, self.second = pid_file, f"{name}-second"
        self.problems: list[str] = []
        self.end = threading.Event()
        self.lock = threading.Lock()
        self.threads = [
            threading.Thread(target=f, daemon=True) for f in (self.execs, self.creates, self.orphans)
        ]
        #: Children that somebody here waits for.
        self.own: set[int] = set()

    def start(self, *own: int) -> None:
        self.own.update(own)
        for thread in self.threads:
            thread.start()

    def stop(self) -> list[str]:
        self.end.set()
        for thread in self.threads:
            thread.join()
        return self.problems

    def call(self, *words: str) -> None:
        """One command of krun's; its output goes to a file, which containers may go on holding."""
        with (self.work / f"outside-{words[0]}").open("wb+") as out:
            with self.lock:
                process = subprocess.Popen(
                    [*self.krun, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
                self.own.add(process.pid)
            try:
                status = process.wait(60)
            except subprocess.TimeoutExpired:
                self.problems.append(f"krun {' '.join(words)}: hangs")
                process.kill()
                process.wait()
                return
            finally:
                self.own.discard(process.pid)  # the number may be that of an orphan next
            out.seek(0)
            said = out.read().decode(errors="replace")
        if status in SAW:
            self.problems.append(f"krun {' '.join(words)}: the program saw {SAW[status]}")
        if "fatal" in said or "Traceback" in said:
            self.problems.append(f"krun {' '.join(words)}: {said[-500:]}")

    def pid(self) -> int:
        try:
            return int(self.pid_file.read_text() or 0)
        except (OSError, ValueError):
            return 0

    def execs(self) -> None:
        number = 0
        while not self.end.wait(0.05):
            if self.pid():
                number += 1
                walk = ["walk", str(self.seed * 1000 + number)] if number % 2 else ["probe"]
                # The first process, which kills what has walked long enough, cannot kill root's where it is not root.
                root = KINDS[self.seed % len(KINDS)][0].uid == 0
                user = "0:0" if root and number % 3 else "1000:1000"
                self.call("exec", "--user", user, self.name, "/guest_fuzz", *walk)

    def orphans(self) -> None:
        """Where this process is a subreaper (pytest, the attacks), what the payload made with CLONE_PARENT ends up here."""
        while not self.end.wait(0.1):
            with self.lock:
                try:
                    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    if found is not None and found.si_pid not in self.own:
                        os.waitpid(found.si_pid, os.WNOHANG)
                except ChildProcessError:
                    pass

    def creates(self) -> None:
        while not self.end.wait(0.05):
            if pid := self.pid():
                made = Bundle(self.work / "second", root=self.root)
                made.config["root"]["readonly"] = True
                made.namespace_path("pid", f"/proc/{pid}/ns/pid")
                made.args("/guest_fuzz", "probe").write()
                self.call("create", "--bundle", str(made.path), self.second)
                self.call("delete", "--force", self.second)


class KernelLog:
    """The kernel's log from now on."""

    def __init__(self) -> None:
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def refused(self) -> list[str]:
        """The calls that ended a monitor; closes the log."""
        lines = []
        while True:
            try:
                lines.append(os.read(self.fd, 8192).decode(errors="replace"))
            except BrokenPipeError:
                continue  # older lines have been overwritten
            except BlockingIOError:
                break
        os.close(self.fd)
        return sorted(
            {
                f"a monitor made system call {found[1]}, which its filter refuses"
                for found in map(REFUSED.search, lines)
                if found
            }
        )


def left(name: str) -> str:
    """The processes of a container that does not end: state, name, what they wait for."""
    words = []
    for line in Path(f"/sys/fs/cgroup/pids/{name}/cgroup.procs").read_text().split():
        try:
            stat = Path(f"/proc/{line}/stat").read_text()
            words.append(
                f"{line} {stat[stat.rindex(')') + 2]} parent {stat[stat.rindex(')') + 2 :].split()[1]} {Path(f'/proc/{line}/wchan').read_text()}"
            )
        except OSError:
            pass
    return "; ".join(words)


def shared_a_death(said: str) -> bool:
    """Whether all monitors that ended by their own words ended as docs/limits.md says of a killed process's relatives."""
    words = ENDED.findall(said)
    return bool(words) and all(line.startswith(SHARED_A_DEATH) for line in words)


def run_slice(seed: int, seconds: float) -> Outcome:
    """One container with one seed."""
    work = BUILD / f"run-{seed}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    log, pid_file, out = work / "log", work / "pid", work / "out"
    name = f"fuzz-{os.getpid()}-{seed}"
    # Every second round of KINDS has its calls completed inside the guest (docs/calls.md).
    name_of_krun = "krun-local" if seed // len(KINDS) % 2 else "krun"
    krun = [str(BUILD / name_of_krun), "--root", str(work / "state")]
    canaries, monitor, problems = Canaries(), Monitor(BUILD / "tree"), []
    kernel = KernelLog()
    made = bundle(work, seed, seconds, canaries, monitor)
    outside = Outside(krun, name, seed, work, made.rootfs, pid_file)
    watcher = Watcher(monitor, [name])
    with out.open("wb") as sink:
        process = subprocess.Popen(
            [
                *krun,
                "run",
                "--trace",
                str(log),
                "--pid-file",
                str(pid_file),
                "--bundle",
                str(made.path),
                name,
            ],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
        watcher.start()
        outside.start(process.pid)
        try:
            process.wait(seconds + 90)
        except subprocess.TimeoutExpired:
            problems.append(f"seed {seed}: hangs: {left(name)}")
            subprocess.run([*krun, "kill", name, "KILL"], check=False, capture_output=True, timeout=60)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        problems += [f"seed {seed}: {p}" for p in outside.stop()]
        problems += [f"seed {seed}: {p}" for p in watcher.stop()]
        subprocess.run([*krun, "delete", "--force", name], check=False, capture_output=True, timeout=60)
    said = out.read_text(errors="replace")[-2000:]
    words = log.read_text(errors="replace") if log.exists() else ""
    problems += sorted({line for line in words.splitlines() if "fatal" in line})
    # The payload's first process reports a status 127 and ends; the rest of the slice's time is not used.
    if process.returncode != 0 and not ("status 127" in said and shared_a_death(said)):
        problems.append(f"seed {seed}: status {process.returncode}: {said.strip()}")
    if not watcher.texts:
        problems.append(f"seed {seed}: no monitor's memory was seen")
    if not monitor.unchanged():
        problems.append(f"seed {seed}: the monitor's file is not what it was")
    problems += [f"seed {seed}: {p}" for p in (*canaries.problems(said), *kernel.refused())]
    canaries.remove()
    if not problems:
        shutil.rmtree(work, ignore_errors=True)
    return Outcome(seed, process.returncode, said.strip(), problems)


def run_attacks(seconds: float) -> int:
    """The table of tests/attacks for at most `seconds` in all; returns how many won."""
    attacks.build()
    pairs = [(a, u) for a in attacks.ATTACKS for u in a.users]
    each, won = min(ATTACK_SECONDS, seconds / len(pairs)), 0
    for n, (attack, user) in enumerate(pairs):
        problems = attacks.run(attack, user, BUILD / f"attack-{os.getpid()}-{n}", seconds=each)
        print(f"attack {attack.name} {user.name}: {'; '.join(problems) or 'lost'}", flush=True)
        won += bool(problems)
    return won


def main(argv: list[str]) -> int:
    seconds = float(argv[0]) if argv else 60
    seeds = [int(a) for a in argv[1:]]
    build()
    attacks.adopt_children()
    bad, done, n = 0, 0.0, 0
    while done < seconds:
        seed = seeds[n] if n < len(seeds) else int(time.time()) * 100 + n
        part = min(SLICE, seconds - done)
        outcome = run_slice(seed, part)
        print(f"seed {seed}: {outcome.said}", *outcome.problems, sep="\n  ", flush=True)
        bad += bool(outcome.problems)
        done += part
        n += 1
    if not seeds:
        bad += run_attacks(seconds / 4)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
