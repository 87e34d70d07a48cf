"""The monitor's short-lived threads (krun/native/process/private.c): no signal reaches them, because all are blocked."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.runtime import DIRECT

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="needs /dev/kvm")

#: With a second thread the monitor reads its own procfs on a thread with a descriptor table of its own.
PROGRAM = """
import sys, threading
threading.Thread(target=sys.stdin.read, daemon=True).start()
print("ready", flush=True)
while True:
    open("/proc/self/status").close()
"""


def blocked(task: Path) -> int:
    found = re.search(r"^SigBlk:\s+(\w+)", (task / "status").read_text(), re.M)
    return int(found[1], 16) if found else 0


def test_every_signal_is_blocked() -> None:
    process = subprocess.Popen(
        [*DIRECT, "/usr/bin/python3", "-c", PROGRAM],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    masks: dict[str, int] = {}
    seen: dict[str, int] = {}
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        end, tasks = time.monotonic() + 10, Path(f"/proc/{process.pid}/task")
        while time.monotonic() < end and len([t for t, n in seen.items() if n == 1 and masks[t]]) < 20:
            for name in os.listdir(tasks):
                with suppress(OSError):
                    masks[name] = blocked(tasks / name)
                    seen[name] = seen.get(name, 0) + 1
    finally:
        process.kill()
        process.communicate(timeout=20)
    # A thread that has ended shows no mask.
    short = [masks[t] for t, n in seen.items() if n == 1 and masks[t]]
    assert short, "no short-lived thread was seen"
    faults = 1 << signal.SIGSEGV - 1 | 1 << signal.SIGBUS - 1
    assert [f"{mask:x}" for mask in short if mask & faults != faults] == []
