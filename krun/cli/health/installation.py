"""krun itself: what was built, the interpreter, the configuration, the place of the state."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import krun
from krun.cli.health.finding import FAIL, OK, WARN, Finding
from krun.errors import KrunError


def build(_root: str) -> Iterator[Finding]:
    """The monitor and the compiled module."""
    native = os.path.join(os.path.dirname(os.path.abspath(krun.__file__)), "native")
    monitor = os.path.join(native, "krun-monitor")
    remedy = "./dev setup, or pip install . anew"
    try:
        __import__("krun.native._krun")
        module = Finding("native module", OK, "krun.native._krun")
    except ImportError as error:
        module = Finding("native module", FAIL, str(error), remedy)
    if not os.access(monitor, os.X_OK):
        yield Finding("monitor", FAIL, f"{monitor} is missing or not executable", remedy)
    elif module.level == OK:  # the look at its files needs that module
        yield from _monitor_files(monitor)
    yield module


def _monitor_files(path: str) -> Iterator[Finding]:
    from krun.kvm.image import MONITOR_MODE, READABLE_PATH, can_be_read

    info = os.stat(path)
    if not os.path.isfile(READABLE_PATH) or not os.stat(READABLE_PATH).st_mode & 0o004:
        text = f"{READABLE_PATH} is missing or cannot be read: no containers in user namespaces or of ordinary users"
        yield Finding("monitor", WARN, text, "./dev setup, or pip install . anew")
    if os.geteuid() == 0 and can_be_read(info):
        # The first container mends a file of root's (kvm/image.py); one of another owner is copied for each container.
        text = f"{path} has mode {info.st_mode & 0o7777:04o} and owner {info.st_uid}: it can be read"
        chmod = f"chmod {MONITOR_MODE:04o} {path}"
        remedy = (
            f"chown root:root {path} && {chmod} (docs/lifecycle.md); the next create does the chmod itself"
        )
        yield Finding("monitor", WARN, text, remedy)
    else:
        yield Finding("monitor", OK, f"{path}, {info.st_size // 1024} KiB")


def launcher(_root: str) -> Iterator[Finding]:
    """Which of the two launchers runs."""
    path = os.path.abspath(sys.argv[0])
    try:
        with open(path, "rb") as file:
            fast = file.read(4) == b"\x7fELF"
    except OSError:
        fast = False
    if fast:
        yield Finding("launcher", OK, f"{path}, an interpreter that has started already")
    else:
        remedy = "python -m krun.native.build_launcher DIR makes DIR/krun (needs gcc and python3-dev)"
        yield Finding("launcher", WARN, f"{path}, a script: some 10 ms more for each command", remedy)


def python(_root: str) -> Iterator[Finding]:
    """The interpreter and the packages of rare verbs."""
    from importlib.util import find_spec

    version = ".".join(map(str, sys.version_info[:3]))
    level = OK if sys.version_info >= (3, 11) else FAIL
    yield Finding("python", level, f"{sys.executable} {version}", "needs Python 3.11 or newer")
    for module, use in (
        ("click", "help and error texts"),
        ("pyseccomp", "seccomp profiles"),
        ("pyroute2", "linux.netDevices"),
        ("prctl", "check of privileges"),
        ("yaml", "/etc/krun/krun.yaml"),
    ):
        if find_spec(module) is None:
            yield Finding(
                "python", WARN, f"package {module} is missing: no {use}", "./dev setup, or pip install ."
            )


def configuration(_root: str) -> Iterator[Finding]:
    """/etc/krun/krun.yaml."""
    from krun import settings

    if not os.path.lexists(settings.PATH):
        yield Finding("configuration", OK, f"no {settings.PATH}: the defaults")
        return
    try:
        found = settings.load()
    except KrunError as error:
        remedy = "krun refuses every command of a container until the file is mended or removed"
        yield Finding("configuration", FAIL, str(error), remedy)
        return
    values = ", ".join(f"{key}={getattr(found, attribute)}" for key, _, _, attribute in settings.KEYS)
    yield Finding("configuration", OK, f"{settings.PATH}: {values}")


def state(root: str) -> Iterator[Finding]:
    """The directory of all state, and the room there."""
    place = root
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if os.access(place, os.W_OK):
        yield Finding("state", OK, f"{root} {'is there' if place == root else 'can be made'}")
    else:
        yield Finding(
            "state", FAIL, f"{root} cannot be written", "be root, or set XDG_RUNTIME_DIR, or use --root"
        )
    space = os.statvfs(place)
    if space.f_bavail * space.f_frsize < 16 << 20:
        yield Finding(
            "state", WARN, f"{place} has less than 16 MiB left", "make room: state cannot be written"
        )
