"""Every stressor of stress-ng in a container of runc, then in one of krun: what completes in the first must complete in the second.

    stress_ng.py [--native-only] [--instances N] [--seconds S] [--keep DIR] [--again] [STRESSOR..]

Without names: all stressors of CLASSES but those of NOT_HERE. A container has its own root (the host's /usr and /etc, read-only), a /tmp on
a small ext4 of its own, Docker's default capabilities, a memory limit of 2 GiB and no network but its own loopback: a stressor can hurt nobody.
stress-ng's exit status and its words on passed, failed and skipped stressors are compared. --again reuses the results of runc of an earlier run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KRUN = shlex.split(os.environ.get("KRUN_RUNTIME", str(ROOT / "build" / "bin" / "krun")))
CLASSES = "cpu memory vm os pipe scheduler network filesystem interrupt".split()
#: Signal stressors, which have no class of their own in stress-ng 0.15.
SIGNALS = """sigabrt sigchld sigfd sigfpe sigio signal signest sigpending sigpipe sigq sigrt sigsegv sigsuspend sigtrap kill itimer timer
    timerfd alarm""".split()
NOT_HERE = {"smi", "softlockup"}  # they stop whole CPUs of the host
CAPABILITIES = """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT
    KILL AUDIT_WRITE""".split()
LIMIT = 240  # seconds until one counts as hung; some make millions of calls before they look at the clock
EXITS = {
    0: "completed",
    1: "usage",
    2: "failed",
    3: "no resources",
    4: "not implemented",
    5: "killed",
    7: "bogus metrics",
}


def stressors() -> list[str]:
    names = set(SIGNALS)
    for name in CLASSES:
        # some versions print the list on standard output, others on standard error
        done = subprocess.run(
            ["stress-ng", "--class", name + "?"], capture_output=True, text=True, check=False
        )
        names.update((done.stdout + done.stderr).partition("stressors:")[2].split())
    return sorted(names - NOT_HERE)


def make_bundle(directory: Path, args: list[str], scratch: Path) -> None:
    """Config and root of one container; `scratch` becomes its /tmp."""
    root = directory / "rootfs"
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "var/tmp", "run", "root", "mnt", "media", "boot"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to("usr/" + name)
    subprocess.run(["runc", "spec"], cwd=directory, check=True)
    config = json.loads((directory / "config.json").read_text())
    caps = ["CAP_" + c for c in CAPABILITIES]
    process = config["process"]
    process.update(
        args=args,
        terminal=False,
        cwd="/tmp",
        noNewPrivileges=False,
        env=["PATH=/usr/sbin:/usr/bin", "HOME=/root", "LANG=C"],
    )
    process["capabilities"] = dict.fromkeys(("bounding", "effective", "permitted"), caps)
    process["rlimits"] = [
        {"type": "RLIMIT_NOFILE", "hard": 20000, "soft": 20000},
        {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
    ]
    config["root"]["readonly"] = False
    config["hostname"] = "stress"
    for name in ("usr", "etc"):
        config["mounts"].append(
            {"destination": "/" + name, "type": "bind", "source": "/" + name, "options": ["rbind", "ro"]}
        )
    config["mounts"].append(
        {"destination": "/tmp", "type": "bind", "source": str(scratch), "options": ["rbind", "rw"]}
    )
    config["linux"]["resources"]["memory"] = {"limit": 2 << 30}
    config["linux"]["resources"]["pids"] = {"limit": 8000}
    (directory / "config.json").write_text(json.dumps(config))


def verdict(status: int | str, text: str) -> str:
    """What is compared: the exit and the words of the summary."""
    words = [EXITS.get(status, f"status {status}") if isinstance(status, int) else status]
    for line in text.splitlines():
        match = re.search(r"\] (passed|failed|skipped|metrics untrustworthy): +([0-9]+)(?:: (.*))?$", line)
        if match and match[2] != "0":
            words.append(match[1])
        if "krun-monitor" in line:
            words.append("MONITOR")
    return " ".join(dict.fromkeys(words))


@contextlib.contextmanager
def disk(size: int = 3 << 30) -> Iterator[Path]:
    """A file system of its own: some stressors fill theirs up."""
    directory = Path(tempfile.mkdtemp(prefix="stress-disk."))
    image, mounted = directory / "image", directory / "mnt"
    mounted.mkdir()
    with image.open("wb") as f:
        f.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=False)
        shutil.rmtree(directory, ignore_errors=True)


def run(
    runtime: list[str], name: str, instances: int, seconds: int, log: Path, scratch: Path
) -> tuple[str, float]:
    """Runs one stressor in one container; its verdict and the seconds it took."""
    command = [
        "/usr/bin/stress-ng",
        "--" + name,
        str(instances),
        "--timeout",
        str(seconds),
        "--verify",
        "--temp-path",
        "/tmp",
    ]
    identity = f"stress-{name}-{os.getpid()}"
    directory = Path(tempfile.mkdtemp(prefix="stress."))
    start = time.monotonic()
    files = Path(tempfile.mkdtemp(dir=scratch))
    files.chmod(0o1777)
    try:
        make_bundle(directory, command, files)
        with log.open("wb") as out:
            child = subprocess.Popen(
                [*runtime, "run", "-b", str(directory), identity],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            status: int | str
            try:
                status = child.wait(LIMIT + 10 * seconds)
            except subprocess.TimeoutExpired:
                status = "timeout"
            if status == "timeout":
                subprocess.run(
                    [*runtime, "kill", identity, "KILL"], check=False, capture_output=True, timeout=60
                )
                try:
                    child.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
            subprocess.run(
                [*runtime, "delete", "--force", identity], check=False, capture_output=True, timeout=60
            )
        return verdict(status, log.read_text(errors="replace")), time.monotonic() - start
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(files, ignore_errors=True)


def main(argv: list[str]) -> int:
    """One line a stressor; 1 if one that completes under runc does not under krun."""
    parser = argparse.ArgumentParser(description="stress-ng under runc and krun")
    parser.add_argument("--native-only", action="store_true", help="runc only")
    parser.add_argument("--again", action="store_true", help="use the stored results of runc")
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument(
        "--keep",
        type=Path,
        default=ROOT / "build" / "suites" / "stress-ng",
        help="directory for logs and results",
    )
    parser.add_argument("stressor", nargs="*")
    args = parser.parse_args(argv)
    args.keep.mkdir(parents=True, exist_ok=True)
    stored = args.keep / "runc.json"
    truth: dict[str, str] = json.loads(stored.read_text()) if stored.exists() else {}
    bad = equal = completed = 0
    with disk() as scratch:
        for name in args.stressor or stressors():
            if not args.again or name not in truth:
                truth[name], took = run(
                    ["runc"], name, args.instances, args.seconds, args.keep / f"{name}.runc.log", scratch
                )
                stored.write_text(json.dumps(truth, indent=1, sort_keys=True))
                if args.native_only:
                    print(f"{name}: {truth[name]}, {took:.1f} s", flush=True)
            if args.native_only:
                continue
            seen, took = run(
                KRUN, name, args.instances, args.seconds, args.keep / f"{name}.krun.log", scratch
            )
            completed += truth[name].startswith("completed")
            equal += seen == truth[name]
            bad += seen != truth[name]
            print(
                f"{'ok' if seen == truth[name] else 'FAIL'} {name}: {truth[name]}"
                + ("" if seen == truth[name] else f"; krun: {seen}")
                + f" ({took:.1f} s)",
                flush=True,
            )
    print(f"{equal} stressors equal, {bad} differ; {completed} complete under runc")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
