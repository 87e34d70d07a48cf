"""./dev test-amd [npt=0|npt=1] [PART...]: this tree, with its virtual environment, on the emulated AMD machine.

    PART   corpus        the guest corpus, natively there and under the monitor; judged by explained.txt
           tests         tests/amd and the integration tests that need no engine
           cgroup        cgroup v2 beside runc and crun: tests/amd/test_cgroup_v2.py
           systemd       a boot with systemd as pid 1: tests/amd/test_systemd.py
           tests/...     pytest with these arguments (options, too)
           script=FILE   bash FILE in the tree's root there, as root; what it writes to $OUT comes back
    npt=N  one leg only (default: both; cgroup, systemd, script: npt=1)
    init=systemd         for a script or pytest: boot with systemd as pid 1
    append=TEXT          more of the kernel's command line, such as append="apparmor=1 security=apparmor"
    runtimes=LIST        for pytest: KRUN_TEST_RUNTIMES there (default krun)
    calls=TEXT           settings under `calls` in krun.yaml there, such as calls="local: on, sockets: on"; for the corpus any text means these
    timeout=SECONDS      of one job (default 7200)

Without a PART: corpus and tests in both legs, then cgroup and systemd.  Each part is one boot; what it left is in
build/amd-out/PART-nptN.  What runs there is job.sh, on a copy of the tree at the same absolute path (the launcher and .venv
hold absolute paths).  KRUN_AMDVM=DIR names another place for the machine itself (1.5 GB, built once).
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
import verdict

#: Of the tree, what the job needs: no .git, of build/ the launcher and the attacks (tests/attacks) that are built.
TREE = (
    ".venv",
    "build/bin",
    "build/attacks",
    "krun",
    "tests",
    "pyproject.toml",
    "setup.cfg",
    "dev",
    "docs",
    "README.md",
)
ENGINES = ("podman", "docker", "containerd")
#: Integration tests that have a part of their own, need an engine's daemon, or compare with what is not there.
NOT_THERE = (*ENGINES, "cri", "guest_corpus", "core", "software", "suites", "fuzz", "pages", "pip")
TESTS = [
    "tests/amd",
    "tests/integration",
    "-m",
    "not engine",
    "--ignore=tests/amd/test_systemd.py",
    "--ignore=tests/amd/test_cgroup_v2.py",
]
TESTS += [f"--ignore=tests/integration/test_{name}.py" for name in NOT_THERE]
OPTIONS = ("npt", "init", "append", "runtimes", "timeout", "script", "calls")


@dataclasses.dataclass
class Part:
    """One boot and what to run in it."""

    name: str
    kind: str  # of job.sh: corpus, pytest, script
    arguments: list[str]
    legs: tuple[str, ...]
    init: str = ""
    runtimes: str = "krun"


def parts(words: list[str], options: dict[str, str]) -> list[Part]:
    """What the command line asks for."""
    legs = (options["npt"],) if "npt" in options else ("1", "0")
    one = (options.get("npt", "1"),)
    init = options.get("init", "")
    beside = "runc,crun,krun"
    cgroup = Part("cgroup", "pytest", ["tests/amd/test_cgroup_v2.py"], one, init, beside)
    systemd = Part("systemd", "pytest", ["tests/amd/test_systemd.py"], one, "systemd", beside)
    corpus, tests = Part("corpus", "corpus", [], legs), Part("tests", "pytest", TESTS, legs)
    if "script" in options:
        return [Part("script", "script", words, one, init)]
    if not words:
        return [corpus, tests, cgroup, systemd]
    known = {"corpus": corpus, "tests": tests, "cgroup": cgroup, "systemd": systemd}
    if all(w in known for w in words):
        return [known[w] for w in words]
    return [Part("pytest", "pytest", words, legs, init, options.get("runtimes", "krun"))]


def make_job(job: Path, part: Part, script: str | None, calls: str) -> list[str]:
    """Lay out the job directory: job.sh, the tree as tree.tar, the arguments one a line; the names of the corpus."""
    programs = []
    shutil.copy(Path(__file__).with_name("job.sh"), job / "job.sh")
    if part.kind == "corpus":
        corpus = machine.ROOT / "tests" / "guest" / "corpus.py"
        subprocess.run([sys.executable, str(corpus), "stage", str(job / "corpus")], check=True)
        programs = [line.split()[0] for line in (job / "corpus" / "list").read_text().splitlines()]
    if script:
        shutil.copy(script, job / "script.sh")
    (job / "root").write_text(f"{machine.ROOT}\n")
    (job / "part").write_text(f"{part.kind}\n")
    (job / "calls").write_text(f"{calls}\n")
    (job / "runtimes").write_text(f"{part.runtimes}\n")
    (job / "arguments").write_text("".join(f"{a}\n" for a in part.arguments))
    tar = ["tar", "-C", str(machine.ROOT), "--exclude=__pycache__", "-cf", str(job / "tree.tar")]
    subprocess.run([*tar, *(p for p in TREE if (machine.ROOT / p).exists())], check=True)
    return programs


def run(part: Part, leg: str, options: dict[str, str]) -> tuple[bool, str]:
    """One boot: whether it passed, and its summary."""
    out = machine.ROOT / "build" / "amd-out" / f"{part.name}-npt{leg}"
    timeout = int(options.get("timeout", "7200"))
    print(f"amd: {part.name}, npt={leg}", flush=True)
    with tempfile.TemporaryDirectory(prefix="krun-amd-job-") as tmp:
        programs = make_job(Path(tmp), part, options.get("script"), options.get("calls", ""))
        try:
            status = machine.run(
                Path(tmp),
                out,
                npt=leg,
                init=part.init,
                append=options.get("append", ""),
                job_timeout=timeout,
                machine_timeout=timeout + 300,
            )
        except machine.MachineError as e:
            return False, f"{e}; its console is in {out}/console.log"
    if part.kind == "corpus":
        log = (out / "corpus.log").read_text(errors="replace")
        found = verdict.judge(log, programs, verdict.read_explained(f"npt={leg}"))
        return found.passed, found.text()
    log = (out / "console.log").read_text(errors="replace")
    last = [line for line in log.splitlines() if " passed" in line or " failed" in line or " error" in line]
    return status == 0, last[-1].strip("= ") if last and part.kind == "pytest" else f"status {status}"


def main() -> int:
    options: dict[str, str] = {}
    words = []
    for argument in sys.argv[1:]:
        name, equals, value = argument.partition("=")
        if equals and name in OPTIONS:
            options[name] = value
        else:
            words.append(argument)
    chosen = parts(words, options)
    lines, failed = [], False
    for part in chosen:
        for leg in part.legs:
            passed, text = run(part, leg, options)
            failed = failed or not passed
            lines.append(f"amd: {part.name}, npt={leg}: {'passed' if passed else 'FAILED'}: {text}")
            print(lines[-1], flush=True)
    print("\n".join(["amd: summary", *lines]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
