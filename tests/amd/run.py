"""./dev test-amd [npt=0|npt=1]: this tree, with its virtual environment, on the emulated AMD machine; both legs by default.

What runs there is job.sh, on a copy of the tree at the same absolute path (the launcher and .venv hold absolute paths).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import machine

#: Of the tree, what the job needs: no .git, of build/ only the launcher.
PARTS = (".venv", "build/bin", "krun", "tests", "pyproject.toml", "setup.cfg", "dev", "docs", "README.md")


def make_job(job: Path, arguments: list[str]) -> None:
    """Lay out the job directory: job.sh, the tree as tree.tar, the pytest arguments one a line."""
    here = Path(__file__).resolve().parent
    shutil.copy(here / "job.sh", job / "job.sh")
    if not arguments:
        corpus = machine.ROOT / "tests" / "guest" / "corpus.py"
        subprocess.run([sys.executable, str(corpus), "stage", str(job / "corpus")], check=True)
    (job / "root").write_text(f"{machine.ROOT}\n")
    (job / "arguments").write_text("".join(f"{a}\n" for a in arguments))
    parts = [p for p in PARTS if (machine.ROOT / p).exists()]
    tar = ["tar", "-C", str(machine.ROOT), "--exclude=__pycache__", "-cf", str(job / "tree.tar")]
    subprocess.run([*tar, *parts], check=True)


def main() -> int:
    legs = [a.removeprefix("npt=") for a in sys.argv[1:] if a.startswith("npt=")] or ["1", "0"]
    arguments = [a for a in sys.argv[1:] if not a.startswith("npt=")]
    failed = []
    for leg in legs:
        print(f"amd: npt={leg}", flush=True)
        with tempfile.TemporaryDirectory(prefix="krun-amd-job-") as tmp:
            make_job(Path(tmp), arguments)
            out = machine.ROOT / "build" / "amd-out" / f"npt{leg}"
            try:
                status = machine.run(Path(tmp), out, npt=leg, job_timeout=2700, machine_timeout=3000)
            except machine.MachineError as e:
                print(f"amd: {e}", file=sys.stderr)
                status = 125
        print(
            f"amd: npt={leg} {'passed' if status == 0 else f'FAILED, status {status}'}, output in {out}",
            flush=True,
        )
        if status:
            failed.append(leg)
    return 1 if failed else 0


sys.exit(main())
