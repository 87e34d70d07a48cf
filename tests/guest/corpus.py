"""Runs the guest corpus. Every program runs natively first; what it printed and how it ended is the truth for the VM.

    corpus.py native [PATTERN..]            natively only; a program checks itself by its EXPECTs
    corpus.py direct [PATTERN..]            natively, then under `python -m krun.kvm.direct` (or $KRUN_DIRECT)
    corpus.py local  [PATTERN..]            the same twice: with calls completed inside the guest, and with a choice at random
    corpus.py batch  [PATTERN..]            natively, then all in one container (`krun run` of a bundle, or $KRUN_RUNTIME)
    corpus.py stage DIR [PATTERN..]         DIR/{bin,expected,list,run.sh} for a machine without Python (the emulated AMD VM)

Options before the pattern: -v print differences, -a all variants (default: the first of each program), -n native twice
(finds programs that are not deterministic), -r FILE write a report of the failures.
"""

import difflib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from helpers.alone import run_alone

import build

ROOT = build.HERE.parent.parent
PYTHON = os.environ.get("KRUN_PYTHON", sys.executable)
DIRECT = shlex.split(os.environ.get("KRUN_DIRECT", f"{PYTHON} -m krun.kvm.direct"))
RUNTIME = shlex.split(os.environ.get("KRUN_RUNTIME", str(ROOT / "build" / "bin" / "krun")))
# what docker and podman give by default
CAPABILITIES = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP "
    "SETUID SYS_CHROOT"
)
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C"}


#: Calls completed inside the guest (docs/calls.md): the options of krun.kvm.direct.
LOCAL = {"on": ("--local", "--sockets"), "random": ("--local=random", "--sockets")}


class Result:
    """What a program printed and how it ended: status is the exit code, or minus the signal number."""

    def __init__(self, out, err, status):
        self.out, self.err, self.status = out, err, status

    def __eq__(self, other):
        return (self.out, self.err, self.status) == (other.out, other.err, other.status)

    def difference(self, other):
        """How `other` differs from this, the native result."""
        lines = []
        if self.status != other.status:
            lines.append(f"status: native {self.status}, here {other.status}")
        for name in ("out", "err"):
            one, two = (
                getattr(r, name).decode("utf-8", "backslashreplace").splitlines() for r in (self, other)
            )
            if one != two:
                lines += list(
                    difflib.unified_diff(one, two, f"native std{name}", f"here std{name}", "", "", 1, "")
                )
        return "\n".join(lines[:60])


def run(command, program, timeout, extra=None):
    """Runs one command in a fresh working directory, with a clean environment, as its own session."""
    env = dict(ENV, **program.env, **(extra or {}))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        status = run_alone(command, env, timeout, out, err)
        out.seek(0)
        err.seek(0)
        return Result(out.read(1 << 20), err.read(1 << 20), status)


def wanted_status(program):
    return -int(getattr(signal, program.exit)) if isinstance(program.exit, str) else program.exit


def native(program, variant):
    return run([str(program.binary(variant)), *program.args], program, program.timeout)


def direct(program, variant, *options):
    """Under the monitor, without a container. krun itself needs no environment, so the payload's is passed as it is."""
    extra = {"PYTHONPATH": str(ROOT)} if "KRUN_DIRECT" not in os.environ else {}
    return run(
        [*DIRECT, *options, str(program.binary(variant)), *program.args], program, program.timeout * 2, extra
    )


def native_problem(program, result):
    """Why a native result is not a good truth, or None."""
    if result.status != wanted_status(program):
        return f"status {result.status}, wanted {wanted_status(program)}"
    if b": NO\n" in result.out:
        return "an EXPECT failed"
    return None


def each(chosen, all_variants):
    for program in chosen:
        for variant in program.variants if all_variants else program.variants[:1]:
            yield program, variant


RUN_SH = r"""#!/bin/sh
# Runs the staged corpus. usage: run.sh [-e] [-s SCALE] [-w SLOW] [-p PATTERN] [RUNNER ARGS...]
#   no RUNNER: each program natively against expected/.   RUNNER: natively here first, then `RUNNER ARGS PROGRAM ARGS`,
#   both must agree (with -e: RUNNER against expected/ only).
here=$(cd "$(dirname "$0")" && pwd); pattern='*'; only=; work=${TMPDIR:-/tmp}/guest.$$
while :; do case "$1" in -e) only=1; shift;; -s) export GUEST_SCALE=$2; shift 2;; -w) export GUEST_SLOW=$2; shift 2;; -p) pattern=$2; shift 2;; *) break;; esac; done
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C
good=0; bad=0; mkdir -p "$work"
one() { # one NAME TIMEOUT COMMAND..: leaves $work/NAME.{out,err,status}
    n=$1; t=$2; shift 2; rm -rf "$work/cwd"; mkdir "$work/cwd"
    (cd "$work/cwd" && exec timeout -s KILL "$t" setsid -w "$@" </dev/null >"$work/$n.out" 2>"$work/$n.err") 2>/dev/null
    echo $? >"$work/$n.status"
}
differs() { for k in out err status; do cmp -s "$1.$k" "$2.$k" || { echo "    $k differs"; diff "$1.$k" "$2.$k" | head -20; return 0; }; done; return 1; }
while read -r name timeout env args; do
    case "$name" in $pattern) ;; *) continue;; esac
    [ "$env" = - ] && env=
    if [ $# -eq 0 ] || [ -z "$only" ]; then
        one native $((timeout * 10)) env $env "$here/bin/$name" $args
        truth=$work/native
    else truth=$here/expected/$name; fi
    if [ $# -gt 0 ]; then one vm $((timeout * 20)) env $env "$@" "$here/bin/$name" $args; got=$work/vm
    else got=$work/native; truth=$here/expected/$name; fi
    if differs "$truth" "$got" >"$work/why"; then bad=$((bad + 1)); echo "FAIL $name"; cat "$work/why"
    else good=$((good + 1)); echo "ok $name"; fi
done <"$here/list"
rm -rf "$work"
echo "corpus: $good ok, $bad failed"
[ $bad -eq 0 ]
"""

# Inside the one container of batch mode: runs every line of /corpus/list, leaves NAME.{out,err,status} in /results.
DRIVER_SH = r"""#!/bin/sh
mkdir -p /results
while read -r name timeout env args; do
    [ "$env" = - ] && env=
    rm -rf /tmp/cwd; mkdir -p /tmp/cwd
    (cd /tmp/cwd && exec timeout -s KILL "$timeout" setsid -w env $env "/corpus/bin/$name" $args </dev/null \
        >"/results/$name.out" 2>"/results/$name.err") 2>/dev/null
    echo $? >"/results/$name.status"
done </corpus/list
"""


def shell_status(status):
    """A status as a shell has it: 128 + signal."""
    return 128 - status if isinstance(status, int) and status < 0 else 137 if status == "timeout" else status


def stage_list(pairs, factor=1):
    lines = []
    for program, variant in pairs:
        env = ",".join(f"{k}={v}" for k, v in program.env.items()) or "-"
        lines.append(
            f"{program.binary(variant).name} {program.timeout * factor} {env} {' '.join(program.args)}".rstrip()
        )
    return "\n".join(lines) + "\n"


def stage(directory, pairs):
    """Lays out a directory that needs only a POSIX shell, timeout and setsid to run."""
    directory = Path(directory)
    (directory / "bin").mkdir(parents=True, exist_ok=True)
    (directory / "expected").mkdir(exist_ok=True)
    for program, variant in pairs:
        binary = program.binary(variant)
        for path in [binary, Path(str(binary) + ".so")]:
            if path.exists():
                shutil.copy2(path, directory / "bin" / path.name)
        result = native(program, variant)
        at = directory / "expected" / binary.name
        Path(f"{at}.out").write_bytes(result.out)
        Path(f"{at}.err").write_bytes(result.err)
        Path(f"{at}.status").write_text(f"{shell_status(result.status)}\n", encoding="ascii")
    (directory / "list").write_text(stage_list(pairs), encoding="ascii")
    (directory / "run.sh").write_text(RUN_SH, encoding="ascii")
    (directory / "run.sh").chmod(0o755)


def libraries(pairs):
    """The shared libraries (and loaders) the binaries and /bin/sh need, as absolute paths."""
    need = {"/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libgcc_s.so.1"}
    tools = [
        "/bin/sh",
        "/usr/bin/timeout",
        "/usr/bin/setsid",
        "/usr/bin/env",
        "/bin/mkdir",
        "/bin/rm",
        "/bin/cat",
        "/usr/bin/sort",
        "/usr/bin/tr",
    ]
    for path in [*tools, *{str(p.binary(v)) for p, v in pairs}]:
        text = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        need.update(word for word in text.split() if word.startswith("/"))
    return (
        need
        | set(tools)
        | ({"/lib/ld-musl-x86_64.so.1"} if Path("/lib/ld-musl-x86_64.so.1").exists() else set())
    )


def bundle(directory, pairs, command):
    """A root file system with the corpus in it, and a config.json that runs `command` in it."""
    directory = Path(directory)
    root = directory / "rootfs"
    for name in ("proc", "dev", "sys", "tmp", "etc", "results", "corpus/bin", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="ascii")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="ascii")
    for path in libraries(pairs):
        target = root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), target)
    for program, variant in pairs:
        binary = program.binary(variant)
        for path in [binary, Path(str(binary) + ".so")]:
            if path.exists():
                shutil.copy2(path, root / "corpus/bin" / path.name)
    (root / "corpus/list").write_text(stage_list(pairs, 2), encoding="ascii")
    (root / "corpus/driver.sh").write_text(DRIVER_SH, encoding="ascii")
    (root / "corpus/driver.sh").chmod(0o755)
    subprocess.run(["runc", "spec"], cwd=directory, check=True)
    config = json.loads((directory / "config.json").read_text())
    config["process"].update(args=command, terminal=False, cwd="/", env=[f"{k}={v}" for k, v in ENV.items()])
    config["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": 20000, "soft": 20000}]
    for kind in ("bounding", "effective", "permitted"):
        config["process"]["capabilities"][kind] = ["CAP_" + name for name in CAPABILITIES.split()]
    config["process"]["capabilities"].pop("ambient", None)
    config["root"]["readonly"] = False
    (directory / "config.json").write_text(json.dumps(config))


def batch(pairs, runtime, timeout=1800):
    """Runs the pairs in one container of `runtime`; returns {binary name: Result with a shell's status}."""
    with tempfile.TemporaryDirectory(prefix="corpus.") as directory:
        bundle(directory, pairs, ["/bin/sh", "/corpus/driver.sh"])
        subprocess.run(
            [*runtime, "run", "-b", directory, f"corpus{os.getpid()}"],
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        results = {}
        for program, variant in pairs:
            at = Path(directory) / "rootfs/results" / program.binary(variant).name
            try:
                parts = [Path(f"{at}.{kind}").read_bytes() for kind in ("out", "err")]
                results[at.name] = Result(*parts, int(Path(f"{at}.status").read_text()))
            except (OSError, ValueError):
                results[at.name] = Result(b"", b"", "did not run")
        return results


def main(argv):
    mode, rest = argv[0], argv[1:]
    verbose = all_variants = twice = False
    report = None
    directory = rest.pop(0) if mode == "stage" else None
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        verbose, all_variants, twice = (
            verbose or option == "-v",
            all_variants or option == "-a",
            twice or option == "-n",
        )
        if option == "-r":
            report = open(rest.pop(0), "w", encoding="utf-8")  # pylint: disable=consider-using-with
    chosen = build.programs(rest)
    sys.stderr.write(build.build(chosen))
    pairs = list(each(chosen, all_variants))
    if mode == "stage":
        stage(directory, pairs)
        print(f"{len(pairs)} programs in {directory}")
        return 0
    if mode == "batch":
        pairs = [pair for pair in pairs if not pair[0].host]
        truth = batch(pairs, ["runc"])
        seen = batch(pairs, RUNTIME)
    failed = 0
    for program, variant in pairs:
        name = program.binary(variant).name
        start = time.monotonic()
        why, slow = None, 0
        if mode == "batch":
            why = truth[name].difference(seen[name]) or None
        else:
            result = native(program, variant)
            slow = time.monotonic() - start
            why = native_problem(program, result)
            if why:
                why = f"native: {why}\n{result.out[-3000:].decode(errors='replace')}{result.err[-1000:].decode(errors='replace')}"
            if not why and mode == "direct":
                why = result.difference(direct(program, variant)) or None
            for options in LOCAL.values() if not why and mode == "local" else ():
                why = why or result.difference(direct(program, variant, *options)) or None
            if not why and twice:
                why = result.difference(native(program, variant)) or None
        took = time.monotonic() - start
        failed += bool(why)
        if why or verbose:
            print(f"{'FAIL' if why else 'ok'} {name} ({slow:.2f} s native, {took:.2f} s)", flush=True)
        if why:
            print("    " + why.replace("\n", "\n    "), flush=True)
            if report:
                report.write(f"FAIL {name}\n{why}\n\n")
                report.flush()
    print(f"{len(pairs)} run, {failed} failed ({mode})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
