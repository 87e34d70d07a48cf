"""`--count`: each process's own system calls and exits."""

import os
import re
import subprocess
from pathlib import Path

from helpers.runtime import DIRECT

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 50; i++) getppid();
    pid_t p = fork();
    if (!p) { getppid(); _exit(0); }
    waitpid(p, 0, 0);
    return 0;
}
"""


def test_a_forked_child_counts_its_own(tmp_path: Path) -> None:
    (tmp_path / "calls.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-o", tmp_path / "calls", tmp_path / "calls.c"], check=True)
    command = [*DIRECT, "--count", str(tmp_path / "calls")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert sorted(int(n) for n in re.findall(r"^ *(\d+) .* getppid$", done.stderr, re.M)) == [1, 50]
    calls = [int(n) for n in re.findall(r"^ *(\d+) +\d+ total$", done.stderr, re.M)]
    exits = re.findall(r"^ *(\d+) exits:(.*)$", done.stderr, re.M)
    uncounted = []
    assert len(calls) == len(exits) == 2
    for of_process, (total, causes) in zip(calls, exits, strict=True):
        by_cause = {name: int(n) for name, n in re.findall(r" ([A-Za-z# ]+?) (\d+)", causes)}
        assert sum(by_cause.values()) == int(total)
        # On PVM the first call of a VM is an exception.
        left = sum(by_cause.get(name, 0) for name in ("OUT", "window", "exception"))
        uncounted.append(left - of_process)
    # exit_group is not among the calls; fork is a call of both processes, and an exit of the parent's.
    assert sorted(uncounted) == [0, 1]
