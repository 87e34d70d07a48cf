"""Many containers one after the other and many at once: nothing is left; how long it takes goes to build/soak.json.

`--soak` (or KRUN_SOAK=1) makes 500 cycles and 100 at once, as the figures in docs/performance.md; a few are enough otherwise.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers.runtime import ROOT, SLOW, Runtime, cgroup_directories, find, wait_for

RUNTIMES = os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(",")
FULL = os.environ.get("KRUN_SOAK") == "1"
NUMBERS = itertools.count()
REPORT = ROOT / "build" / "soak.json"


@pytest.fixture
def full(request):
    return FULL or request.config.getoption("--soak", default=False)


class Fleet:
    """Containers of one bundle, called directly: the helpers' own work would be measured too."""

    def __init__(self, runtime, bundle):
        self.runtime = runtime.name
        self.name = f"soak{os.getpid()}{next(NUMBERS)}{runtime.name}"
        self.bundle = bundle.write()
        self.work = runtime.work
        self.root = runtime.root
        self.argv = [str(find(runtime.name)), "--root", str(self.root)]
        self.environment = runtime.environment
        self.log = (self.work / "soak.log").open("wb")

    def spawn(self, verb, id, *options):
        # Flags before the id, operands after it.
        operands = [o for o in options if o == "KILL"]
        argv = [*self.argv, verb, *(o for o in options if o not in operands), id, *operands]
        begin = time.monotonic()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=self.environment
        )
        process.begun = begin
        return process

    def create(self, id):
        return self.spawn("create", id, "--bundle", str(self.bundle), "--pid-file", str(self.work / id))

    def pid(self, id):
        return int((self.work / id).read_text())

    def done(self, process, seconds=300):
        """Wait for a command; what it says is in the log."""
        status = process.wait(seconds * SLOW)
        assert status == 0, (process.args, status, (self.work / "soak.log").read_text()[-2000:])

    def timed(self, process):
        """Seconds until it has ended, and those of the CPU that it had."""
        begin = process.begun
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        self.done(process)
        return seconds, used.ru_utime + used.ru_stime

    def left(self):
        """What is still on the host under our name."""
        left = [f"cgroup {p}" for p in cgroup_directories(self.name)]
        left += [f"state {p}" for p in self.root.iterdir() if p.name != "@kvm"]  # krun/kvm/host.py
        mountinfo = Path("/proc/self/mountinfo").read_text()
        left += [f"mount {m}" for m in mountinfo.splitlines() if str(self.work) in m or self.name in m]
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                try:
                    command = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace")
                    cgroup = Path("/proc", entry, "cgroup").read_text()
                except OSError:
                    continue
                if self.name in command or self.name in cgroup:
                    left.append(f"process {entry}: {command!r}")
        return left

    def nothing_is_left(self):
        """The kernel takes the last ones away a moment after their exit was reported."""
        for _ in range(100):
            left = self.left()
            if not left:
                break
            time.sleep(0.05)
        assert not left


def files(pid, id):
    """What the descriptors of a process are, without numbers of inodes and without the container's name."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{fd}").partition("[")[0].partition("(")[0]
            found.append(name.replace(f"{id}/", ""))
        except OSError:
            pass
    return sorted(found)


def settled(pid, id):
    """As files(), once it has been the same for a while."""
    time.sleep(0.2)
    return files(pid, id)


def has(pid, id, wanted):
    """Ready is told before the socket that tells it is closed: a moment, as long as the machine likes."""
    wait_for(lambda: files(pid, id) == wanted, f"{id} has other descriptors than the first: {wanted}")


def collect(pid):
    """The exit code of a container's init: it is our child, for we are a subreaper."""
    found = [0, 0]

    def ended():
        found[:] = os.waitpid(pid, os.WNOHANG)
        return found[0]

    wait_for(ended, f"init {pid} does not end", 120)
    return os.waitstatus_to_exitcode(found[1])


def kernel_memory():
    """KiB of what the kernel cannot give back; of the whole machine, so it is shown and not asserted."""
    words = ("SUnreclaim:", "KernelStack:", "PageTables:", "Percpu:", "SecPageTables:")
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(line[1]) for line in lines if line[0] in words)


def summary(seconds):
    ordered = sorted(seconds)
    at = lambda part: round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * part))], 1)  # noqa: E731
    return {"n": len(ordered), "median": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1), "min": at(0)}


def record(name, runtime, figures):
    REPORT.parent.mkdir(exist_ok=True)
    known = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    known.setdefault(name, {})[runtime] = figures
    REPORT.write_text(json.dumps(known, indent=1) + "\n")
    print(name, runtime, json.dumps(figures))


def test_cycles(tmp_path, make_bundle, as_root, full):
    """create, start, wait, delete, again and again; the runtimes take turns, so that a busy moment of the machine meets both."""
    fleets = []
    for name in RUNTIMES:
        work = tmp_path / name
        work.mkdir()
        fleets.append(Fleet(Runtime(name, work), make_bundle().args("true")))
    # What differs between the two is waiting: for the CPU, on a busy machine, and in the kernel.
    times = [{"create": [], "start": [], "delete": [], "sum": [], "sum, CPU": []} for _ in fleets]
    memory, descriptors = [0] * len(fleets), [[]] * len(fleets)
    for number in range(500 if full else 10):
        for index, fleet in enumerate(fleets):
            id = f"{fleet.name}-{number}"
            before = kernel_memory()
            one = [fleet.timed(fleet.create(id))]
            descriptors[index] = descriptors[index] or settled(fleet.pid(id), id)
            has(fleet.pid(id), id, descriptors[index])
            one.append(fleet.timed(fleet.spawn("start", id)))
            assert collect(fleet.pid(id)) == 0
            one.append(fleet.timed(fleet.spawn("delete", id)))
            walls, cpus = zip(*one, strict=True)
            for verb, seconds in zip(times[index], [*walls, sum(walls), sum(cpus)], strict=True):
                times[index][verb].append(seconds)
            memory[index] += kernel_memory() - before if number >= 5 else 0
    for index, fleet in enumerate(fleets):
        fleet.nothing_is_left()
        figures = {verb: summary(seconds) for verb, seconds in times[index].items()}
        record("cycles", fleet.runtime, {**figures, "kernel KiB": memory[index]})


def test_many_at_once(runtime, bundle, full):
    """All of them created, started, killed, deleted at the same time."""
    fleet = Fleet(runtime, bundle.args("sleep", "1000"))
    ids = [f"{fleet.name}-{number}" for number in range(100 if full else 6)]

    def all_at_once(spawn):
        """The seconds until each has ended; they are waited for in the order of their end."""
        begin = time.monotonic()
        running = [spawn(id) for id in ids]
        seconds = []
        while running:
            ended = [p for p in running if p.poll() is not None]
            for process in ended:
                fleet.done(process)
                seconds.append(time.monotonic() - begin)
                running.remove(process)
            assert time.monotonic() - begin < 600 * SLOW, f"{len(running)} commands do not end"
            time.sleep(0.002)
        return seconds

    figures = {}
    memory = kernel_memory()
    try:
        figures["create"] = summary(all_at_once(fleet.create))
        figures["start"] = summary(all_at_once(lambda id: fleet.spawn("start", id)))
        for id in ids:
            os.kill(fleet.pid(id), 0)
        figures["kill"] = summary(all_at_once(lambda id: fleet.spawn("kill", id, "KILL")))
        assert {collect(fleet.pid(id)) for id in ids} == {-signal.SIGKILL}
    finally:
        figures["delete"] = summary(all_at_once(lambda id: fleet.spawn("delete", id, "--force")))
    fleet.nothing_is_left()
    record("at once", runtime.name, {**figures, "kernel KiB": kernel_memory() - memory})
