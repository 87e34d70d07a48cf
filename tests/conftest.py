"""Fixtures: bundle -> created -> running, each with runc first and then with krun."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import order
from helpers.bundle import Bundle, make_busybox_root
from helpers.observed import Observed, observed, pair, runtime_of
from helpers.runtime import Container, Runtime

PR_SET_CHILD_SUBREAPER = 36

#: To look at one only: KRUN_TEST_RUNTIMES=krun.
RUNTIMES = os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(",")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast", action="store_true", help="lint, unit, native, a sample of the rest: two minutes"
    )
    parser.addoption("--soak", action="store_true", help="test_soak.py: 500 cycles, 100 at once")


def pytest_configure(config: pytest.Config) -> None:
    # As conmon and the containerd shim: the init of a created container becomes a child of this process.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # nohup ignores SIGHUP, a shell's `&` SIGINT and SIGQUIT: programs would inherit that, and terminals are tested.
    for number, usual in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # The emulated machine is slow and may hang: its console tells of a failure at once, not at the end.
    if report.failed and os.environ.get("KRUN_TEST_MACHINE") == "emulated":
        print(
            f"\n{report.nodeid} ({report.when}): {report.longreprtext[-1500:]}",
            file=sys.__stderr__,
            flush=True,
        )


@pytest.fixture(scope="session")
def as_root() -> None:
    assert os.geteuid() == 0, "these tests need root (and /dev/kvm for krun): run them with sudo ./dev test"


@pytest.fixture(scope="session")
def busybox_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared root that tests do not write to."""
    root = tmp_path_factory.mktemp("busybox") / "rootfs"
    make_busybox_root(root)
    return root


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest, tmp_path: Path, as_root: None) -> Iterator[Runtime]:
    """The runtime; at the end nothing of its containers may be left on the host."""
    runtime = Runtime(request.param, tmp_path)
    yield runtime
    undeleted = [c for c in runtime.containers if (runtime.root / c.id).exists()]
    runtime.clean()
    left = {c.id: c.left() for c in runtime.containers}
    for _ in range(100):
        if not any(left.values()):
            break
        # The kernel takes the last processes and mounts away a moment after the exit was reported.
        time.sleep(0.02)
        left = {c.id: c.left() for c in runtime.containers}
    left = {id: what for id, what in left.items() if what}
    assert not left, f"left behind (deleted by the fixture: {[c.id for c in undeleted]}): {left}"


@pytest.fixture
def make_bundle(tmp_path: Path) -> Callable[..., Bundle]:
    numbers = itertools.count()

    def make(root: Path | None = None) -> Bundle:
        return Bundle(tmp_path / f"bundle{next(numbers)}", root=root)

    return make


@pytest.fixture
def bundle(make_bundle: Callable[..., Bundle]) -> Bundle:
    """A busybox bundle of its own; its program is `true`."""
    return make_bundle()


@pytest.fixture
def created(runtime: Runtime, bundle: Bundle) -> Container:
    """A created container that will sleep."""
    return runtime.create(bundle.args("sleep", "1000"))


@pytest.fixture
def running(created: Container) -> Container:
    """A running container that sleeps."""
    created.call("start").ok()
    return created


@pytest.fixture
def observe(request: pytest.FixtureRequest) -> Observed:
    """observe(value): with runc remember it, with krun demand the same."""
    runtime = runtime_of(request.node)
    assert runtime is not None, "a case that observes is parametrized by a runtime"
    return observed(request, runtime, "runc" in RUNTIMES)


#: In tests of engines, whose fixtures wrap a runtime: same(value, what).
same = observe


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """What is quick and cheap to mend comes first (helpers/order.py); a case of krun's that compares with runc's comes after
    runc's, whatever -k or -m selected.
    """
    collected = items[:]
    if config.getoption("fast"):
        items[:] = [item for item in items if order.is_fast(item)]
        config.hook.pytest_deselected(items=[item for item in collected if item not in set(items)])
    yield
    items[:] = order.ordered(pair(collected, items))
