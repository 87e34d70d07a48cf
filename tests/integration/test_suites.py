"""A quick part of the large suites (./dev test-suites runs them whole): CPython's own tests, stress-ng's stressors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.runtime import find
from suites import cpython, stress_ng

pytestmark = [pytest.mark.root, pytest.mark.kvm]

MODULES = "test_thread test_threadsignals test_fork1 test_mmap test_select test_epoll test_fcntl test_posix test_os".split()
STRESSORS = """clone context exec fork futex fp-error mmap mmapfork mprotect mremap msg pipe pthread sem shm signal
    sigsegv sigfpe sock sockfd stack switch timer vfork vm yield zombie""".split()


@pytest.fixture(scope="module")
def testsuite() -> None:
    """CPython's own tests; their absence is a failure with the remedy, never a skip."""
    done = subprocess.run([cpython.PYTHON, "-c", "import test.test_os"], capture_output=True, check=False)
    assert done.returncode == 0, "libpython3.x-testsuite is missing: run ./dev test, which installs it"


@pytest.mark.parametrize("module", MODULES)
def test_cpython(testsuite: None, module: str, tmp_path: Path) -> None:
    native, _ = cpython.test(module, False, 150, tmp_path)
    seen, _ = cpython.test(module, True, 150, tmp_path)
    assert len(native) > 1
    assert not cpython.compare(native, seen)


@pytest.fixture(scope="module")
def scratch(as_root: None) -> Iterator[Path]:
    find("stress-ng"), find("mkfs.ext4"), find("krun")
    with stress_ng.disk() as directory:
        yield directory


@pytest.mark.parametrize("name", STRESSORS)
def test_stress_ng(name: str, scratch: Path, tmp_path: Path) -> None:
    truth, _ = stress_ng.run(["runc"], name, 2, 1, tmp_path / "runc.log", scratch)
    seen, _ = stress_ng.run(stress_ng.KRUN, name, 2, 1, tmp_path / "krun.log", scratch)
    assert seen == truth, (tmp_path / "krun.log").read_text()
