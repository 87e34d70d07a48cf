"""The validation programs of opencontainers/runtime-tools against runc, crun and krun side by side.

    run.py [--runtimes runc,crun,krun] [--timeout S] [--markdown FILE] [--keep] [PROGRAM..]

The suite is a Go module: `go` fetches it, and its programs and their static payload (runtimetest) are built below build/oci.
A program passes if it ends with 0 and prints as many points as it plans, none of them "not ok". The status of this command is 1
if krun fails a program that crun passes. What a failure says is in build/oci/out/RUNTIME/PROGRAM.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "oci"
MODULE = "github.com/opencontainers/runtime-tools@v0.9.1-0.20250523060157-0ea5ed0382a2"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PR_SET_CHILD_SUBREAPER = 36


def build() -> list[str]:
    """Build what is not yet built; the names of the programs."""
    binaries = WORK / "bin" / MODULE.rpartition("@")[2]
    if not (binaries / "complete").exists():
        go = shutil.which("go")
        if go is None:
            raise SystemExit("run.py: go is missing: install the package golang-go, or a newer Go")
        environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
        done = subprocess.run(
            [go, "mod", "download", "-json", MODULE], env=environment, stdout=subprocess.PIPE, text=True
        )
        found = json.loads(done.stdout or "{}")
        if "Dir" not in found:
            raise SystemExit(f"run.py: {MODULE} cannot be had: {found.get('Error')}")
        source = WORK / "source"
        shutil.rmtree(source, ignore_errors=True)
        # The module cache is read-only, and `go build` wants to write go.sum.
        shutil.copytree(found["Dir"], source, copy_function=shutil.copyfile, dirs_exist_ok=True)
        subprocess.run(["chmod", "-R", "u+w", str(source)], check=True)
        binaries.mkdir(parents=True, exist_ok=True)
        for packages in ("./cmd/runtimetest", "./validation/..."):
            subprocess.run(
                [go, "build", "-p", "2", "-o", f"{binaries}/", packages],
                cwd=source,
                env=environment,
                check=True,
            )
        # The programs look for both in their working directory.
        shutil.copy(source / "rootfs-amd64.tar.gz", binaries)
        (binaries / "complete").touch()
    other = {"complete", "runtimetest"}
    return sorted(p.name for p in binaries.iterdir() if p.name not in other and p.suffix != ".gz")


class Runtime:
    """One runtime with a state directory of its own, called through a script: the suite passes no --root."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = str(ROOT / "build/bin/krun") if name == "krun" else shutil.which(name, path=PATH)
        if path is None or not Path(path).exists():
            raise SystemExit(f"run.py: {name} is missing")
        self.root = Path(f"/run/krun-oci-{os.getpid()}-{name}")
        self.tmp = Path(f"/tmp/krun-oci-{os.getpid()}-{name}")
        self.out = WORK / "out" / name
        for directory in (self.root, self.tmp):
            directory.mkdir(mode=0o711)
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        self.command = [path, "--root", str(self.root)]
        self.script = self.root.with_suffix(".sh")
        self.script.write_text(f'#!/bin/sh\nexec {path} --root {self.root} "$@"\n')
        self.script.chmod(0o755)
        os.mknod(f"{self.root}.null", 0o666 | stat.S_IFCHR, os.stat("/dev/null").st_rdev)
        os.chmod(f"{self.root}.null", 0o666)

    def close(self) -> None:
        for directory in (self.root, self.tmp):
            shutil.rmtree(directory, ignore_errors=True)
        self.script.unlink()
        os.unlink(f"{self.root}.null")

    def run(self, program: str, seconds: float) -> tuple[bool, str]:
        """Whether `program` passes, and in a few words why not."""
        argv = [str(WORK / "bin" / MODULE.rpartition("@")[2] / program)]
        # In a mount namespace of its own: a container without one leaves its mounts where it was made. crun gives the
        # /dev/null that is its stdio to the container's user: it gets another node.
        script = f'mount --bind {self.root}.null /dev/null && exec "$@" </dev/null'
        if self.name == "crun" and Path("/sys/fs/cgroup/unified").is_dir():
            # crun of Debian 12 does not start where v1 hierarchies and a v2 one stand side by side.
            script = f"umount /sys/fs/cgroup/unified && {script}"
        argv = ["unshare", "--mount", "sh", "-c", script, "sh", *argv]
        output = self.out / program
        with output.open("wb") as file:
            process = subprocess.Popen(
                argv,
                cwd=WORK / "bin" / MODULE.rpartition("@")[2],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={"PATH": PATH, "HOME": "/root", "TMPDIR": str(self.tmp), "RUNTIME": str(self.script)},
            )
            status = reap(process.pid, seconds)
            process.returncode = 0 if status is None else status
            if status is None:
                process.send_signal(signal.SIGKILL)
                os.kill(process.pid, signal.SIGKILL)
        self.clean()
        return judge(output.read_text(errors="replace"), status)

    def clean(self) -> None:
        """Take away what a program has left."""
        for entry in list(self.root.iterdir()):
            if entry.is_dir():
                argv = [*self.command, "delete", "--force", entry.name]
                subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        reap(None, 0.5)
        for entry in list(self.tmp.iterdir()):
            shutil.rmtree(entry, ignore_errors=True)


def reap(pid: int | None, seconds: float) -> int | None:
    """Collect all children (inits of containers become ours) until `pid` has ended or time is over; its exit code."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == pid and pid is not None:
            return os.waitstatus_to_exitcode(status)
        if not ended:
            time.sleep(0.01)
    return None


def judge(text: str, status: int | None) -> tuple[bool, str]:
    """Read a program's TAP output."""
    if status is None:
        return False, "does not end"
    # Points of runtimetest stand indented in the diagnosis of an outer point; the outer one counts.
    points = re.findall(r"^(not ok|ok)\b(.*)$", text, re.M)
    failed = [words.strip(" -0123456789") for verdict, words in points if verdict != "ok"]
    plan = re.search(r"^1\.\.(\d+)", text, re.M)
    if status:
        last = [line for line in text.splitlines() if line.strip()]
        return False, f"ends with {status}: {last[-1] if last else ''}"
    if failed:
        return False, f"{len(failed)} of {len(points)}: {failed[0]}"
    if plan is None or int(plan[1]) != len(points):
        return False, f"{len(points)} points, planned {plan[1] if plan else 'none'}"
    if points and all("skip" in words.lower() for _, words in points):
        return True, "skipped"
    return True, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runtimes", default="runc,crun,krun")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--markdown", type=Path, help="write the table there")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    if os.geteuid():
        raise SystemExit("run.py: must run as root")
    programs = build()
    if unknown := set(options.programs) - set(programs):
        raise SystemExit(f"run.py: no such program: {' '.join(sorted(unknown))}")
    programs = options.programs or programs
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    runtimes = [Runtime(name) for name in options.runtimes.split(",")]
    results: dict[str, dict[str, tuple[bool, str]]] = {}
    try:
        for program in programs:
            results[program] = {r.name: r.run(program, options.timeout) for r in runtimes}
            verdicts = "".join(f"{word(v):9}" for v in results[program].values())
            why = "; ".join(f"{name}: {text[:150]}" for name, (_, text) in results[program].items() if text)
            print(f"{program:32}{verdicts}{why}", flush=True)
    finally:
        for runtime in runtimes:
            runtime.close()
    for runtime in runtimes:
        passed = sum(results[p][runtime.name][0] for p in programs)
        print(f"{runtime.name}: {passed} of {len(programs)}")
    if options.markdown:
        names = [r.name for r in runtimes]
        lines = [f"| program | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
        lines += [f"| {p} | {' | '.join(word(results[p][n]) for n in names)} |" for p in programs]
        options.markdown.write_text("\n".join(lines) + "\n")
    passes = (False, "")
    behind = [p for p, r in results.items() if r.get("crun", passes)[0] and not r.get("krun", (True, ""))[0]]
    if behind:
        print(f"crun passes and krun does not: {' '.join(behind)}", file=sys.stderr)
    return 1 if behind else 0


def word(verdict: tuple[bool, str]) -> str:
    return ("skipped" if verdict[1] == "skipped" else "pass") if verdict[0] else "FAIL"


if __name__ == "__main__":
    sys.exit(main())
