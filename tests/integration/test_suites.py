"""A quick part of the large suites (./dev test-suites runs them whole): CPython's own tests, stress-ng's stressors."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from suites import cpython, stress_ng

pytestmark = [pytest.mark.root, pytest.mark.kvm]

MODULES = "test_thread test_threadsignals test_fork1 test_mmap test_select test_epoll test_fcntl test_posix test_os".split()
STRESSORS = """clone context exec fork futex fp-error mmap mmapfork mprotect mremap msg pipe pthread sem shm signal
    sigsegv sigfpe sock sockfd stack switch timer vfork vm yield zombie""".split()

HAVE_CPYTHON = (
    subprocess.run([cpython.PYTHON, "-c", "import test.test_os"], capture_output=True, check=False).returncode
    == 0
)


@pytest.mark.skipif(not HAVE_CPYTHON, reason="needs the package libpython3.x-testsuite")
@pytest.mark.parametrize("module", MODULES)
def test_cpython(module: str, tmp_path: Path) -> None:
    native, _ = cpython.test(module, False, 150, tmp_path)
    seen, _ = cpython.test(module, True, 150, tmp_path)
    assert len(native) > 1
    assert not cpython.compare(native, seen)


@pytest.fixture(scope="module")
def scratch(as_root: None) -> Iterator[Path]:
    with stress_ng.disk() as directory:
        yield directory


@pytest.mark.skipif(
    not shutil.which("stress-ng") or not os.path.exists(stress_ng.KRUN[0]), reason="needs stress-ng and krun"
)
@pytest.mark.parametrize("name", STRESSORS)
def test_stress_ng(name: str, scratch: Path, tmp_path: Path) -> None:
    truth, _ = stress_ng.run(["runc"], name, 2, 1, tmp_path / "runc.log", scratch)
    seen, _ = stress_ng.run(stress_ng.KRUN, name, 2, 1, tmp_path / "krun.log", scratch)
    assert seen == truth, (tmp_path / "krun.log").read_text()
