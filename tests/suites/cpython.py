"""CPython's own regression tests, natively and under the monitor: every test case must end alike.

    cpython.py [--vm-only] [--native-only] [--timeout S] [--keep DIR] [MODULE..]

MODULE is a name as `test_os`, or `test_os:PATTERN` for those cases only (regrtest's --match); without any, those of MODULES. Needs Debian's
libpython3.11-testsuite (or what fits /usr/bin/python3). The native results are kept beside the others in DIR (build/suites/cpython) and used again
with --vm-only. KRUN_DIRECT replaces the command that runs a program under the monitor, as for the guest corpus.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers.alone import run_alone

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = "/usr/bin/python3"
#: Without PYTHONPATH, which the payload would see, too.
START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from krun.kvm.direct import main; sys.exit(main(sys.argv[1:]))"
DIRECT = (
    shlex.split(os.environ["KRUN_DIRECT"])
    if "KRUN_DIRECT" in os.environ
    else [sys.executable, "-I", "-c", START]
)
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
MODULES = """
    test_os test_posix test_subprocess test_threading test_signal test_mmap test_socket test_select test_selectors test_epoll
    test_asyncio test_multiprocessing_fork test_multiprocessing_spawn test_thread test_threadsignals test_fcntl test_pty
    test_resource test_time test_tempfile test_shutil test_io test_poll test_pwd test_faulthandler test_ctypes
    test_fork1 test_wait3 test_wait4 test_popen test_posixpath test_pathlib test_eintr test_largefile test_fileio test_file
    test_socketserver test_asyncore test_ssl test_concurrent_futures test_queue test_threadedtempfile test_threading_local test_genericpath
    test_getpass test_ioctl test_kqueue test_openpty test_sched test_stat test_sys test_syslog test_dbm_gnu test_sqlite3
    test_float test_math test_cmath test_struct test_hashlib test_zlib test_gc test_mailbox test_support test_venv test_cmd_line test_posixpath
""".split()

#: What does not end natively on the development machine, so that there is nothing to compare: its AF_VSOCK device
#: has no transport that connects to itself.
NOT_HERE = {"test_socket": ("*ThreadedVSOCKSocketStreamTest*",)}


def outcome(case: ET.Element) -> str:
    for kind in ("error", "failure"):
        found = case.find(kind)
        if found is not None:
            return kind
    if case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
        return "skipped"
    return "ok"


def results(xml: Path, status: int | str) -> dict[str, str]:
    """Case -> how it ended. A case that runs again (loops) counts with its worst end."""
    cases: dict[str, str] = {"(status)": str(status)}
    if xml.exists() and xml.stat().st_size:
        for case in ET.parse(xml).getroot().iter("testcase"):
            name = case.get("name", "?")
            end = outcome(case)
            if cases.get(name, "ok") in ("ok", "skipped"):
                cases[name] = end
    return cases


def test(module: str, monitor: bool, timeout: float, keep: Path) -> tuple[dict[str, str], float]:
    """Runs one module; its cases and the seconds it took."""
    name, _, match = module.partition(":")
    side = "vm" if monitor else "native"
    xml, log = (
        keep / f"{module.replace('*', '_')}.{side}.xml",
        keep / f"{module.replace('*', '_')}.{side}.log",
    )
    xml.unlink(missing_ok=True)
    command = [
        PYTHON,
        "-m",
        "test",
        "-v",
        "--timeout",
        str(int(timeout * 0.9)),
        "--junit-xml",
        str(xml),
        "-u",
        "all,-gui,-largefile,-cpu,-urlfetch,-network",
    ]
    command += ["-m", match] if match else []
    env = dict(ENV)
    if monitor:
        command = [*DIRECT, *command]
        env.update({k: v for k, v in os.environ.items() if k == "KRUN_MONITOR"})
    start = time.monotonic()
    for pattern in NOT_HERE.get(name, ()):
        command += ["-i", pattern]
    with log.open("wb") as out:
        status = run_alone([*command, name], env, timeout, out, out)
    took = time.monotonic() - start
    cases = results(xml, status)
    (keep / f"{module.replace('*', '_')}.{side}.cases").write_text(
        "".join(f"{k}\t{v}\n" for k, v in sorted(cases.items())), encoding="utf-8"
    )
    return cases, took


def stored(module: str, keep: Path) -> dict[str, str] | None:
    path = keep / f"{module.replace('*', '_')}.native.cases"
    if not path.exists():
        return None
    return dict(line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines())


def compare(native: dict[str, str], vm: dict[str, str]) -> list[str]:
    return [
        f"{name}: native {native.get(name, 'not run')}, krun {vm.get(name, 'not run')}"
        for name in sorted(native.keys() | vm.keys())
        if native.get(name) != vm.get(name)
    ]


def main(argv: list[str]) -> int:
    """Prints one line a module, and below it each case that differs. 1 if any does."""
    parser = argparse.ArgumentParser(description="CPython's tests natively and under krun")
    parser.add_argument(
        "--vm-only",
        action="store_true",
        help="compare with the native result of an earlier run, where there is one",
    )
    parser.add_argument("--native-only", action="store_true")
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        help="seconds for one module natively; four times that under krun",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=ROOT / "build" / "suites" / "cpython",
        help="directory for logs and results",
    )
    parser.add_argument("module", nargs="*")
    args = parser.parse_args(argv)
    args.keep.mkdir(parents=True, exist_ok=True)
    total = equal = bad = 0
    for module in args.module or dict.fromkeys(MODULES):
        native = stored(module, args.keep) if args.vm_only else None
        native_took = 0.0
        if native is None:
            native, native_took = test(module, False, args.timeout, args.keep)
        if args.native_only:
            print(
                f"{module}: {len(native) - 1} cases, status {native['(status)']}, {native_took:.0f} s",
                flush=True,
            )
            continue
        vm, took = test(module, True, args.timeout * 4, args.keep)
        differences = compare(native, vm)
        total += len(native) - 1
        equal += len(native) - 1 - sum(1 for d in differences if not d.startswith("(status)"))
        bad += bool(differences)
        print(
            f"{'FAIL' if differences else 'ok'} {module}: {len(native) - 1} cases, native {native_took:.0f} s, krun {took:.0f} s",
            flush=True,
        )
        shown = [d for d in differences if not d.endswith("krun not run")]
        for line in shown[:100]:
            print("    " + line, flush=True)
        if len(shown) < len(differences):
            print(f"    {len(differences) - len(shown)} cases did not run under krun", flush=True)
    print(f"{equal} of {total} cases equal; {bad} modules differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
