"""One program by itself: a fresh directory, a given environment, a session of its own, and an end."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from typing import IO


def run_alone(
    command: list[str], env: dict[str, str], timeout: float, out: IO[bytes], err: IO[bytes]
) -> int | str:
    """Run `command` with standard input from /dev/null, then kill what it left behind in its process group.

    Returns the exit code, minus the number of the signal that ended it, or "timeout" after `timeout` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="alone.") as cwd:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        status: int | str
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            status = "timeout"
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        return status
