"""./dev bench: krun beside runc and crun in one run, interleaved (A B C A B C ...).  It measures and judges nothing.

Wall time is from spawn to exit of the command; CPU time is that of the command and of all children it waited for
(wait4), so work that a container's own process does after the command has ended is not in it.  Every figure is from this
run, on this machine, with whatever else ran on it: compare columns, not runs.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from helpers.bundle import Bundle, make_busybox_root  # noqa: E402
from helpers.runtime import find  # noqa: E402
from helpers.settings import configured  # noqa: E402
from perf import decision, serve  # noqa: E402
from perf.figures import FIGURES, HOGS, measure  # noqa: E402
from suites import software  # noqa: E402

CLONE_NEWNS = 0x00020000
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
UNIFIED = "/sys/fs/cgroup/unified"
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8


#: What stands under `calls` in krun.yaml for `krun+FORM` (docs/calls.md).
FORMS = {"off": "local: off", "on": "local: on, sockets: off", "sockets": "local: on, sockets: on"}


class Series:
    """One measured quantity of one runtime."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def add(self, wall: float, cpu: float) -> None:
        self.wall.append(wall)
        self.cpu.append(cpu)

    def summary(self) -> dict[str, float]:
        ordered = sorted(self.wall)
        return {
            "runs": len(ordered),
            "min_ms": ordered[0],
            "median_ms": ordered[len(ordered) // 2],
            "p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
            "cpu_ms": sorted(self.cpu)[len(self.cpu) // 2] if self.cpu else 0.0,
            "cpu_min_ms": min(self.cpu, default=0.0),
        }


class Contender:
    """A runtime with a bundle and a state directory of its own; `krun+FORM` is krun with other settings of completed calls."""

    def __init__(self, name: str, work: Path, busybox: Path) -> None:
        self.name = name
        runtime, _, form = name.partition("+")
        self.path = str(find(runtime))
        if form:
            self.path = str(configured(Path(self.path), work / name, FORMS[form]))
        self.root = str(work / f"{name}-state")
        self.devnull = os.open("/dev/null", os.O_RDWR)
        self.bundles: dict[str, str] = {}
        self.series: dict[str, Series] = {}
        for key, args in {"true": ["/bin/true"], "sleep": ["/bin/sleep", "1000"]}.items():
            bundle = Bundle(work / f"{name}-{key}", root=busybox)
            self.bundles[key] = str(bundle.args(*args).write())

    def timed(self, series: str, *args: str, status: int | None = 0) -> tuple[float, float]:
        """Run one command with nothing but descriptors 0 to 2; its wall and CPU milliseconds."""
        argv = [self.path, "--root", self.root, *args]
        files = [(os.POSIX_SPAWN_DUP2, self.devnull, fd) for fd in (0, 1)]
        begin = time.perf_counter_ns()
        pid = os.posix_spawn(self.path, argv, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, file_actions=files)
        _, code, usage = os.wait4(pid, 0)
        wall = (time.perf_counter_ns() - begin) / 1e6
        if status is not None and os.waitstatus_to_exitcode(code) != status:
            raise SystemExit(f"bench: {' '.join(argv)}: status {os.waitstatus_to_exitcode(code)}")
        cpu = (usage.ru_utime + usage.ru_stime) * 1e3
        self.series.setdefault(series, Series()).add(wall, cpu)
        return wall, cpu

    def run_true(self, number: int) -> None:
        self.timed("run true", "run", "--bundle", self.bundles["true"], f"b{os.getpid()}-{number}")

    def life(self, number: int) -> None:
        """create, state, start, exec, kill, delete of one container."""
        id, pid_file = f"b{os.getpid()}-{number}", f"{self.root}.pid"
        sums = [0.0, 0.0]

        def step(name: str, *args: str, counted: bool = False) -> None:
            wall, cpu = self.timed(name, *args)
            if counted:
                sums[0] += wall
                sums[1] += cpu

        step("create", "create", "--bundle", self.bundles["sleep"], "--pid-file", pid_file, id, counted=True)
        pid = int(Path(pid_file).read_text())
        step("state", "state", id)
        step("start", "start", id, counted=True)
        step("exec true", "exec", id, "/bin/true")
        step("kill", "kill", id, "KILL")
        os.waitpid(pid, 0)
        step("delete", "delete", id, counted=True)
        self.series.setdefault("create+start+delete", Series()).add(*sums)

    def idle_memory(self) -> dict[str, int]:
        """KiB of one idle container: every process in its cgroup."""
        id, pid_file = f"b{os.getpid()}-idle", f"{self.root}.pid"
        argv = ["create", "--bundle", self.bundles["sleep"], "--pid-file", pid_file, id]
        self.timed("create", *argv)
        self.timed("start", "start", id)
        pid = int(Path(pid_file).read_text())
        time.sleep(0.3)
        found = {"rss_kb": 0, "pss_kb": 0, "private_kb": 0, "processes": 0}
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or f"/{id}" not in (entry / "cgroup").read_text():
                    continue
                rows = [line.split() for line in (entry / "smaps_rollup").read_text().splitlines()[1:]]
            except OSError:
                continue
            table = {row[0].rstrip(":"): int(row[1]) for row in rows}
            found["rss_kb"] += table["Rss"]
            found["pss_kb"] += table["Pss"]
            found["private_kb"] += table["Private_Clean"] + table["Private_Dirty"]
            found["processes"] += 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.timed("delete", "delete", id)
        return found

    def stages(self, runs: int) -> dict[str, float]:
        """krun's own marks in `run true`, median milliseconds since krun began: from its debug log."""
        found: dict[str, list[float]] = {}
        for number in range(runs):
            log = Path(f"{self.root}.log")
            log.unlink(missing_ok=True)
            id = f"b{os.getpid()}-stages{number}"
            self.timed("stages", "--debug", "--log", str(log), "run", "--bundle", self.bundles["true"], id)
            for name, at in stage_marks(log.read_text()).items():
                found.setdefault(name, []).append(at)
        return {name: sorted(values)[len(values) // 2] for name, values in found.items()}


def stage_marks(log: str) -> dict[str, float]:
    """The marks of one run: `ready` is counted from krun's beginning, `started` from the monitor's."""
    marks: dict[str, float] = {}
    for line in log.splitlines():
        pairs = {name: float(value) for name, value in re.findall(r"(\w+)=(\d+\.\d+)", line)}
        if "ready, ms" in line:
            marks.update(pairs)
        elif "started, ms" in line:
            marks.update(
                {name: marks.get("monitor", 0.0) + at for name, at in pairs.items() if name not in marks}
            )
    return marks


def private_mounts() -> None:
    """crun before 1.9 refuses the hybrid layout: hide the v2 part from this run, in a mount namespace of its own."""
    if not os.path.ismount(UNIFIED):
        return
    if LIBC.unshare(CLONE_NEWNS) != 0:
        raise SystemExit(f"bench: unshare: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["umount", UNIFIED], check=True)


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A directory for all contenders; at the end it goes with the mounts that a runtime has left in it, and they are named.

    The figures are there by then: what a runtime leaves behind is said, and takes nothing away.
    """
    work = Path(tempfile.mkdtemp(prefix="krun-bench-"))
    try:
        yield work
    finally:
        for point in left_mounts(work, Path("/proc/self/mountinfo").read_text()):
            print(f"bench: a runtime has left a mount behind: {point}", file=sys.stderr)
            LIBC.umount2(os.fsencode(point), MNT_DETACH | UMOUNT_NOFOLLOW)
        # Never through a mount that would not go: what it shows may be the host's.
        if left_mounts(work, Path("/proc/self/mountinfo").read_text()):
            print(f"bench: {work} stays, because of these mounts", file=sys.stderr)
        else:
            shutil.rmtree(work)


@contextlib.contextmanager
def hog() -> Iterator[None]:
    """One CPU, the highest that this process may use, is busy."""
    cpu = max(os.sched_getaffinity(0))
    with subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]) as child:
        HOGS.add(child.pid)
        try:
            yield
        finally:
            child.kill()


def left_mounts(work: Path, mountinfo: str) -> list[str]:
    """The mount points below a directory, the last mounted first (proc(5), /proc/PID/mountinfo)."""
    points = [line.split(" ")[4].encode().decode("unicode_escape") for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if point.startswith(f"{work}/")]


def build(source: Path, work: Path) -> Path:
    """The program, linked statically, and beside it the same with the suffix .dynamic."""
    program = work / source.stem
    for more, suffix in (["-static"], ""), ([], ".dynamic"):
        subprocess.run(["gcc", "-O2", *more, "-pthread", "-o", f"{program}{suffix}", str(source)], check=True)
    return program


def copy_dynamic(program: Path, root: Path) -> None:
    """Copy a program into `root`, and its ELF interpreter and libraries to the places where it looks for them."""
    shutil.copy2(program, root)
    for library in re.findall(r"(/\S+)", subprocess.check_output(["ldd", str(program)], text=True)):
        (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, root / library[1:])


def micro(contenders: list[Contender], work: Path, busybox: Path, rounds: int, budget: int) -> dict[str, Any]:
    """tests/perf/micro.c natively and in each runtime, interleaved; name -> where -> nanoseconds (median, min)."""
    program = build(ROOT / "tests" / "perf" / "micro.c", work)
    shutil.copy2(program, busybox / "micro")
    copy_dynamic(program.with_suffix(".dynamic"), busybox)
    seen: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        for where in ("native", *contenders):
            if isinstance(where, str):
                argv, name = [str(program), str(budget)], where
            else:
                bundle = Bundle(work / f"{where.name}-micro", root=busybox)
                path = bundle.args("/micro", str(budget)).write()
                id, name = f"b{os.getpid()}-micro{number}", where.name
                argv = [where.path, "--root", where.root, "run", "--bundle", str(path), id]
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            if done.returncode != 0:
                print(f"bench: micro in {name}: status {done.returncode}", file=sys.stderr)
            for line in done.stdout.splitlines():
                quantity, value = line.split()
                seen.setdefault(quantity, {}).setdefault(name, []).append(float(value))
    return {
        quantity: {
            name: {"median_ns": sorted(values)[len(values) // 2], "min_ns": min(values)}
            for name, values in by.items()
        }
        for quantity, by in seen.items()
    }


def programs(contenders: list[Contender], loaded: bool, rounds: int, name: str) -> dict[str, Any]:
    """The figures of perf/figures.py with `name` in their names, in each runtime: those under a load generator, or the others."""
    chosen = [figure for figure in FIGURES if bool(figure.client) == loaded and name in figure.name]
    packages = {word for figure in chosen for word in figure.packages.split()} | {"bash", "coreutils"}
    if not loaded:
        packages.add("dpkg-dev")  # for apt-get source
    root = software.make_root(packages, sources=not loaded)
    found: dict[str, Any] = {}
    for figure in chosen:
        values, bad = measure(figure, root, {c.name: c.path for c in contenders}, rounds)
        print(bad, end="", file=sys.stderr)
        found[figure.name] = {
            "unit": figure.unit,
            "higher_is_better": figure.higher_is_better,
            "values": {name: got.value for name, got in values.items()},
            "cpu_us": {name: got.cpu_us for name, got in values.items()},
        }
    return found


def program_rows(names: list[str], series: dict[str, Any]) -> list[list[str]]:
    """Each figure: what the runtimes reached, with the CPU time of a request, and the speed of each beside the first one's."""
    rows = []
    for figure, entry in series.items():
        values, cpu = entry["values"], entry["cpu_us"]
        row = [f"{figure}, {entry['unit']}"]
        for name in names:
            spent = f" [{cpu[name]:.1f}]" if cpu.get(name) else ""
            row.append(f"{values[name]:.0f}{spent}" if name in values else "-")
        for name in names[1:]:
            ratio = values[name] / values[names[0]] if {name, names[0]} <= set(values) else 0.0
            ratio = ratio if entry["higher_is_better"] or not ratio else 1 / ratio
            row.append(f"{ratio:.2f}" if ratio else "-")
        rows.append(row)
    return rows


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, columns aligned."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in [head, *rows]
    ]
    lines.insert(1, "| " + " | ".join("-" * w for w in widths) + " |")
    return "\n".join(lines)


def nanoseconds(value: float) -> str:
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6)):
        if value < 1000 * size or unit == "ms":
            return f"{value / size:.{0 if value / size >= 100 else 1 if value / size >= 10 else 2}f} {unit}"
    raise AssertionError


def ratio(speeds: dict[str, float]) -> str:
    return f"{speeds['krun'] / speeds['runc']:.2f}" if {"krun", "runc"} <= set(speeds) else "-"


def report(data: dict[str, Any]) -> str:
    names = list(data["runtimes"])
    parts = [f"{data['machine']}; {data['date']}; milliseconds, median (min, p99) [CPU median, min]"]
    rows = []
    for quantity in data["lifecycle"].get(names[0], {}):
        row = [quantity]
        for name in names:
            s = data["lifecycle"][name][quantity]
            wall = f"{s['median_ms']:.1f} ({s['min_ms']:.1f}, {s['p99_ms']:.1f})"
            row.append(f"{wall} [{s['cpu_ms']:.1f}, {s['cpu_min_ms']:.1f}]")
        cpu = {name: data["lifecycle"][name][quantity]["cpu_min_ms"] for name in names}
        rows.append([*row, f"{cpu['krun'] / cpu['runc']:.2f}" if {"krun", "runc"} <= set(cpu) else "-"])
    if rows:
        parts.append(table(["", *names, "krun / runc, CPU min"], rows))
    if data.get("stages"):
        rows = [[name, f"{at:.3f}"] for name, at in data["stages"].items()]
        parts.append(
            "krun run true: its stages, median milliseconds since krun began\n\n"
            + table(["stage", "at"], rows)
        )
    if data.get("memory"):
        rows = [
            [name, *(str(m[k]) for k in ("rss_kb", "pss_kb", "private_kb", "processes"))]
            for name, m in data["memory"].items()
        ]
        parts.append(table(["idle container", "RSS KiB", "PSS KiB", "private KiB", "processes"], rows))
    if data.get("micro"):
        rows = []
        where = ["native", *names]
        for quantity, by in data["micro"].items():
            row = [quantity, *(nanoseconds(by[n]["median_ns"]) if n in by else "-" for n in where)]
            rows.append([*row, ratio({n: 1 / by[n]["min_ns"] for n in by})])
        parts.append(table(["one operation, median", *where, "krun's speed / runc's, minima"], rows))
    for series, head in ("servers", "requests per second [CPU us of one]"), ("programs", "best round"):
        if data.get(series):
            speeds = [f"{name} / {names[0]}" for name in names[1:]]
            parts.append(table([head, *names, *speeds], program_rows(names, data[series])))
    if data.get("serve"):
        parts.append(table(serve.HEAD, serve.rows(data["serve"])))
    if data.get("decision"):
        parts.append(table(decision.HEAD, decision.rows(data["decision"])))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description=(__doc__ or "").split("\n\n")[0])
    usual = "runc,crun,krun" + (",runsc" if shutil.which("runsc") else "")
    parser.add_argument(
        "--runtimes",
        default=usual,
        help="in the order in which they take turns; krun+off: no calls completed in the guest, krun+on: all but those on sockets, krun+sockets: these, too",
    )
    parser.add_argument(
        "--series", default="lifecycle,memory,stages,micro,servers", help="also serve and programs"
    )
    parser.add_argument("--hog", action="store_true", help="keep one CPU busy beside the measurements")
    parser.add_argument("--runs", type=int, default=40, help="rounds of the lifecycle series")
    parser.add_argument("--micro-rounds", type=int, default=3)
    parser.add_argument("--server-rounds", type=int, default=2, help="of servers and programs")
    parser.add_argument("--program", default="", help="servers and programs with this in their names only")
    parser.add_argument("--serve-rounds", type=int, default=5)
    parser.add_argument("--serve-seconds", type=float, default=3, help="time for each run of wrk")
    parser.add_argument(
        "--micro-ms", type=int, default=60, help="time for each single measurement of micro.c"
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build" / "bench.json", help="where the figures go"
    )
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench: needs root")
    wanted = options.series.split(",")
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    private_mounts()
    with workspace() as work, contextlib.ExitStack() as stack:
        busybox = work / "rootfs"
        make_busybox_root(busybox)
        contenders = [Contender(name, work, busybox) for name in options.runtimes.split(",")]
        if options.hog:
            stack.enter_context(hog())
        data: dict[str, Any] = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": f"{os.cpu_count()} CPUs{', one kept busy' if options.hog else ''}, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}",
            "runtimes": {c.name: c.path for c in contenders},
            "runs": options.runs,
            "lifecycle": {},
        }
        if "lifecycle" in wanted:
            for number in range(-2, options.runs):
                for contender in contenders:
                    contender.run_true(number + 1000)
                    contender.life(number + 2000)
                    if number < 0:
                        # Warm caches; nothing of it counts.
                        contender.series.clear()
            order = [
                "run true",
                "create",
                "start",
                "create+start+delete",
                "exec true",
                "state",
                "kill",
                "delete",
            ]
            for c in contenders:
                data["lifecycle"][c.name] = {key: c.series[key].summary() for key in order}
        if "memory" in wanted:
            data["memory"] = {c.name: c.idle_memory() for c in contenders}
        if "stages" in wanted:
            data["stages"] = next((c.stages(15) for c in contenders if c.name == "krun"), {})
        if "micro" in wanted:
            data["micro"] = micro(contenders, work, busybox, options.micro_rounds, options.micro_ms)
        if "serve" in wanted:
            data["serve"] = serve.measure(work, options.serve_rounds, options.serve_seconds)
            loads = (("nothing else", 0), ("8 clients ask another service", 8))
            data["decision"] = {
                name: decision.measure(work / f"decision-{load}", load=load) for name, load in loads
            }
        for series in "servers", "programs":
            if series in wanted:
                data[series] = programs(
                    contenders, series == "servers", options.server_rounds, options.program
                )
    options.json.parent.mkdir(exist_ok=True)
    options.json.write_text(json.dumps(data, indent=1) + "\n")
    print(report(data))
    print(f"\nfigures: {options.json}")


if __name__ == "__main__":
    main()
