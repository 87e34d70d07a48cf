"""`--count`: each process's own system calls."""

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
