"""./dev profile start: what the kernel's trace says of a fork under the monitor."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_fork_is_taken_apart(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    program = str(ROOT / "tests" / "perf" / "start.py")
    options = ["--rounds", "1", "--parts", "4", "--cases", "fork_wait", "--json", str(file)]
    done = subprocess.run([sys.executable, program, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    case = json.loads(file.read_text())["fork_wait"]
    number = case["figures"]["number"]
    # Each child has a VM and a vCPU of its own, which runs first once.
    assert number["VM"] == number["vCPU"] == number["KVM_RUN, first of a vCPU"] == 1
    assert number["clone"] == number["exit"] == 1
    assert case["figures"]["us"]["VM"] > 0
    assert case["calls"]["wait4"] == 1
    left = sum(number for cause, number in case["causes"].items() if cause in ("OUT", "window"))
    assert left >= 3  # clone and wait4 of the parent, exit_group of the child
    assert "| fork_wait" in done.stdout
