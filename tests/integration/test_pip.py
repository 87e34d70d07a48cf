"""`pip install .` and `pip install -e .` in a fresh environment give a `krun` that runs containers, and that can make its own fast
launcher. The dependencies are those of .venv, so that nothing is fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.bundle import Bundle

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.timeout(900)]


def run(*command: str | Path, cwd: Path) -> str:
    # Not PYTHONPATH and the like of the tests: what was installed shall be found by itself.
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(cwd)}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a checkout holds, and nothing that was built here."""
    folder = tmp_path_factory.mktemp("tree")
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-coz", "--exclude-standard", "krun", "*.*"]
    for name in subprocess.check_output([*command, "LICENSE"], cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).exists() and not name.startswith(("tests/", "docs/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    assert not list(folder.rglob("krun-monitor")) and not list(folder.rglob("*.so"))
    return folder


@pytest.mark.parametrize("how", ["regular", "editable"])
def test_what_pip_installs_runs_containers(tree: Path, tmp_path: Path, busybox_root: Path, how: str) -> None:
    assert os.geteuid() == 0
    venv = tmp_path / "venv"
    run("/usr/bin/python3", "-m", "venv", venv, cwd=tmp_path)
    site = next(venv.glob("lib/python3*/site-packages"))
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(ours + "\n")
    pip = [venv / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "uninstall", "--yes", "setuptools", cwd=tmp_path)  # too old, and before ours
    install = [*pip, "install", "--no-index", "--no-build-isolation", "--no-deps"]
    run(*install, *(["--editable"] if how == "editable" else []), tree, cwd=tmp_path)

    krun = venv / "bin" / "krun"
    assert "krun version" in run(krun, "--version", cwd=tmp_path)
    place = run(venv / "bin" / "python", "-c", "import krun; print(krun.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(tree if how == "editable" else site)

    if how == "regular":
        assert "it can be read" in subprocess.run([krun, "doctor"], capture_output=True, text=True).stdout
    bundle = Bundle(tmp_path / "bundle", root=busybox_root).args("echo", "from a wheel").write()
    state = tmp_path / "state"
    assert (
        run(krun, "--root", state, "run", "--bundle", bundle, f"pip{os.getpid()}", cwd=tmp_path)
        == "from a wheel\n"
    )

    # pip gives every program 0755; root's first container takes the right to read away (docs/lifecycle.md).
    monitor = Path(place).with_name("native") / "krun-monitor"
    assert monitor.stat().st_mode & 0o7777 == 0o111
    assert monitor.with_name("krun-monitor.readable").stat().st_mode & 0o444 == 0o444
    assert "it can be read" not in subprocess.run([krun, "doctor"], capture_output=True, text=True).stdout

    # The fast launcher is made on the machine where it is used: from what the package brings.
    run(venv / "bin" / "python", "-m", "krun.native.build_launcher", tmp_path / "bin", cwd=tmp_path)
    fast = tmp_path / "bin" / "krun"
    assert fast.read_bytes()[:4] == b"\x7fELF"
    done = run(fast, "--root", state, "run", "--bundle", bundle, f"pip{os.getpid()}", cwd=tmp_path)
    assert done == "from a wheel\n"
