"""./dev profile start: where the time of a fork, an execve, a thread and a container goes, by cause (docs/performance.md).

Each case runs traced and not traced by turns. A case of micro.c runs once with one operation and once with many; the difference,
divided, is one operation. "Waits" are sleeps in the kernel that no signal ends (RCU). Time on a CPU only: perf/events.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from helpers.bundle import Bundle, make_busybox_root  # noqa: E402
from helpers.runtime import DIRECT, find  # noqa: E402
from perf import bench, events  # noqa: E402

MICRO = ("fork_wait", "posix_spawn_static", "posix_spawn_dynamic", "vfork_exec_dynamic", "thread_create_join")
KRUN = ("krun run", "krun create", "krun exec")
EXITS = re.compile(r" ([A-Za-z# ]+?) (\d+)")
CALLS = re.compile(r"^ *(\d+) +\d+ +\d+ +\d+ (\w+)$", re.M)

Figures = dict[str, dict[str, float]]


class Case:
    """One column: microseconds, numbers, waits, faults and exits of one operation, and the price of the trace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.figures: Figures = {}
        self.plain_us = self.traced_us = 0.0
        self.calls: dict[str, float] = {}
        self.causes: dict[str, float] = {}


def figures(account: events.Account) -> Figures:
    return {name: dict(getattr(account, name)) for name in ("us", "number", "waits", "faults", "exits")}


def combine(one: Figures, other: Figures, with_: Callable[[float, float], float]) -> Figures:
    return {
        name: {
            key: with_(one[name].get(key, 0), other[name].get(key, 0)) for key in {**one[name], **other[name]}
        }
        for name in one
    }


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def middle(runs: list[Figures]) -> Figures:
    """The median of each figure: one run may have been disturbed by an interrupt's work."""
    keys = {name: {key for run in runs for key in run[name]} for name in runs[0]}
    return {
        name: {key: median([run[name].get(key, 0) for run in runs]) for key in keys[name]} for name in keys
    }


class Profile:
    def __init__(self, tracefs: Path, work: Path, local: bool) -> None:
        self.tracefs = tracefs
        self.work = work
        self.direct = [*DIRECT, "--local"] if local else [*DIRECT]
        self.null = os.open("/dev/null", os.O_WRONLY)

    def once(self, argv: list[str], first: str) -> tuple[Figures, float, float]:
        """One command: its figures, its CPU microseconds with the trace and without."""
        plain = self.checked(argv, None)
        with events.Trace(self.tracefs) as trace:
            traced = self.checked(argv, trace)
            return figures(trace.account(first)), plain, traced

    def checked(self, argv: list[str], trace: events.Trace | None) -> float:
        status, us = events.run(argv, trace, self.null)
        if status != 0:
            raise SystemExit(f"profile: {' '.join(argv)}: status {status}")
        return us

    def counts(self, argv: list[str]) -> tuple[dict[str, float], dict[str, float]]:
        """Calls and causes of exits, by --count, of all processes that ended by exit (an execve forgets the counts)."""
        log = self.work / "count.log"
        log.unlink(missing_ok=True)
        self.checked([*DIRECT, "--count", "--log", str(log), *argv], None)
        text = log.read_text()
        calls: dict[str, float] = {}
        causes: dict[str, float] = {}
        for number, name in CALLS.findall(text):
            calls[name] = calls.get(name, 0) + int(number)
        for line in re.findall(r" exits:(.*)", text):
            for name, number in EXITS.findall(line):
                causes[name] = causes.get(name, 0) + int(number)
        return calls, causes

    def micro(self, name: str, program: Path, parts: int, rounds: int) -> Case:
        case = Case(name)
        few, many = ([str(program), "0", name, str(n)] for n in (1, 1 + parts))
        runs, plain, traced = [], [], []
        for _ in range(rounds):
            base, base_plain, base_traced = self.once([*self.direct, *few], "")
            full, full_plain, full_traced = self.once([*self.direct, *many], "")
            runs.append(combine(full, base, lambda a, b: (a - b) / parts))
            plain.append((full_plain - base_plain) / parts)
            traced.append((full_traced - base_traced) / parts)
        case.figures, case.plain_us, case.traced_us = middle(runs), median(plain), median(traced)
        base_counts, full_counts = self.counts(few), self.counts(many)
        case.calls, case.causes = (
            {key: (full.get(key, 0) - base.get(key, 0)) / parts for key in full}
            for base, full in zip(base_counts, full_counts, strict=True)
        )
        return case

    def program(self, name: str, argv: list[str], rounds: int) -> Case:
        """A whole program, from the monitor's execve on."""
        case = Case(name)
        done = [self.once([*self.direct, *argv], "") for _ in range(rounds)]
        self.fill(case, done)
        case.calls, case.causes = self.counts(argv)
        return case

    @staticmethod
    def fill(case: Case, done: list[tuple[Figures, float, float]]) -> None:
        case.figures = middle([run for run, _, _ in done])
        case.plain_us, case.traced_us = median([us for _, us, _ in done]), median([us for _, _, us in done])

    def krun(self, rounds: int) -> Iterator[Case]:
        """run of `true`, create, and exec of `true`; krun's own process included."""
        busybox = self.work / "rootfs"
        make_busybox_root(busybox)
        krun = [str(find("krun")), "--root", str(self.work / "state")]
        bundles = {
            name: str(Bundle(self.work / name, root=busybox).args(*args).write())
            for name, args in (("true", ("/bin/true",)), ("sleep", ("/bin/sleep", "1000")))
        }
        id = f"profile{os.getpid()}"
        done: dict[str, list[tuple[Figures, float, float]]] = {name: [] for name in KRUN}
        for _ in range(rounds):
            done["krun run"].append(self.once([*krun, "run", "--bundle", bundles["true"], id], "krun"))
            create = [*krun, "create", "--bundle", bundles["sleep"], id]
            plain = self.checked(create, None)
            try:
                self.checked([*krun, "start", id], None)
                done["krun exec"].append(self.once([*krun, "exec", id, "/bin/true"], "krun"))
            finally:
                self.checked([*krun, "delete", "--force", id], None)
            try:
                with events.Trace(self.tracefs) as trace:
                    traced = self.checked(create, trace)
                    done["krun create"].append((figures(trace.account("krun")), plain, traced))
            finally:
                self.checked([*krun, "delete", "--force", id], None)
        for name in KRUN:
            case = Case(name)
            self.fill(case, done[name])
            yield case


def cell(value: float, number: float) -> str:
    if round(value) == 0 and round(number, 1) == 0:
        return ""
    return f"{value:.0f}" + (f" ({number:.0f})" if number >= 0.95 else "")


def report(cases: list[Case]) -> str:
    rows = []
    for cause in events.CAUSES:
        cells = [cell(c.figures["us"].get(cause, 0), c.figures["number"].get(cause, 0)) for c in cases]
        rows.append([cause, *cells])
    rows.append(["sum", *(f"{sum(c.figures['us'].values()):.0f}" for c in cases)])
    rows.append(["CPU time by wait4, traced", *(f"{c.traced_us:.0f}" for c in cases)])
    rows.append(["the same, not traced", *(f"{c.plain_us:.0f}" for c in cases)])
    rows.append(["waits", *(f"{sum(c.figures['waits'].values()):.0f}" for c in cases)])
    for title, name in (("faults: ", "faults"), ("returns of KVM_RUN: ", "exits")):
        for key in sorted({key for c in cases for key in c.figures[name]}):
            rows.append([title + key, *(cell(c.figures[name].get(key, 0), 0) for c in cases)])
    for title, name in (("exits: ", "causes"), ("calls: ", "calls")):
        most = {
            key: max(getattr(c, name).get(key, 0) for c in cases) for c in cases for key in getattr(c, name)
        }
        for key in sorted(most, key=lambda key: -most[key])[:12]:
            rows.append([title + key, *(cell(getattr(c, name).get(key, 0), 0) for c in cases)])
    rows = [row for row in rows if any(row[1:])]
    return bench.table(["us of CPU (number)", *(c.name for c in cases)], rows)


def go_server(work: Path) -> list[str] | None:
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if not go:
        print("profile: no go on PATH: without the Go server", file=sys.stderr)
        return None
    program = work / "hello"
    environment = {
        **os.environ,
        "HOME": str(work),
        "GOCACHE": str(ROOT / "build" / "go-cache"),
        "GO111MODULE": "off",
    }
    source = ROOT / "tests" / "perf" / "hello.go"
    subprocess.run([go, "build", "-o", str(program), str(source)], check=True, env=environment)
    return [str(program)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev profile start", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--parts", type=int, default=10, help="operations of a case of micro.c")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--local",
        action="store_true",
        help="complete calls inside the guest (docs/calls.md): micro.c's cases, Go and PROGRAM; not the columns of krun, nor the exits by cause",
    )
    parser.add_argument("--cases", default=",".join((*MICRO, "go", *KRUN)))
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "profile.json")
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, help="a program with its arguments instead of the cases"
    )
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("profile: needs root")
    os.environ["PYTHONPATH"] = str(ROOT)
    wanted = [] if options.program else options.cases.split(",")
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="krun-profile-")))
        profile = Profile(stack.enter_context(events.tracefs()), work, options.local)
        cases = []
        if options.program:
            cases.append(profile.program(options.program[0], options.program, options.rounds))
        program = bench.build(ROOT / "tests" / "perf" / "micro.c", work)
        cases += [
            profile.micro(name, program, options.parts, options.rounds) for name in MICRO if name in wanted
        ]
        server = go_server(work) if "go" in wanted else None
        if server:
            cases.append(profile.program("go", server, options.rounds))
        if any(name in wanted for name in KRUN):
            cases += [case for case in profile.krun(options.rounds) if case.name in wanted]
    options.json.parent.mkdir(exist_ok=True)
    options.json.write_text(json.dumps({case.name: vars(case) for case in cases}, indent=1) + "\n")
    print(f"load {os.getloadavg()[0]:.0f}; {options.rounds} rounds, medians\n\n{report(cases)}")


if __name__ == "__main__":
    main()
