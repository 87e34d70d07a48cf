"""Reads and writes files of control groups, and finds the host's layout. This file knows no controller.

cgroups(7); admin-guide/cgroup-v1 and admin-guide/cgroup-v2 of the kernel's documentation.
"""

import errno
import os

from krun.errors import SysError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Controller to directory; cgroup v2 has the one key "".
    Paths = dict[str, str]

MOUNT = "/sys/fs/cgroup"
HYBRID = "/sys/fs/cgroup/unified"
#: "max" of a file that holds one number.
UNLIMITED = (1 << 64) - 1


def host_layout() -> str:
    """Return "v2", "hybrid" (v1 controllers and a v2 tree beside them) or "v1"."""
    if os.path.exists(MOUNT + "/cgroup.controllers"):
        return "v2"
    return "hybrid" if os.path.exists(HYBRID + "/cgroup.procs") else "v1"


def clean(path: str) -> str:
    """Return an absolute or relative cgroupsPath without "..", so that it cannot climb out of the mount point."""
    if not path:
        return ""
    inner = os.path.normpath("/" + path).replace("//", "/")
    return inner if path.startswith("/") else inner[1:]


def read(path: str, dir_fd: "int | None" = None) -> str:
    """Return a cgroup file's text without the final line end. Argument: dir_fd, where a relative path starts. Errors: OSError
    (callers know which are harmless)."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "surrogateescape").rstrip("\n")
    finally:
        os.close(fd)


def write(directory: str, name: str, value: "str | int") -> None:
    """Write one value into a cgroup file. Errors: SysError that names the file and the value."""
    path = f"{directory}/{name}"
    try:
        put(path, value)
    except OSError as error:
        raise refused(path, value, error) from None


def refused(path: str, value: "str | int", error: OSError) -> SysError:
    """Return the error of a file that does not take a value."""
    hint = ""
    if error.errno == errno.ENOENT:
        hint = ", the kernel or the parent cgroup does not offer this controller or file"
        if not os.path.isdir(os.path.dirname(path)):
            hint = ", the cgroup does not exist: who removed it?"
    return SysError("write cgroup file", path, error.errno or 0, f"value {str(value)!r}{hint}")


def put(path: str, value: "str | int", dir_fd: "int | None" = None) -> None:
    """Write one value into a file that exists. Argument: dir_fd, where a relative path starts. Errors: OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.write(fd, os.fsencode(str(value)))
    finally:
        os.close(fd)


def own_paths() -> "dict[str, str]":
    """Return our own cgroups: controller to path, "" to the v2 one (cgroups(7), /proc/PID/cgroup)."""
    paths: dict[str, str] = {}
    for line in read("/proc/self/cgroup").split("\n"):
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    return paths


def make_all(make: "Callable[[list[str]], None]") -> "list[str]":
    """Call `make`, which appends each directory that it makes. Return them, deepest first. Errors: those of `make`; what was
    made is removed again."""
    made: list[str] = []
    try:
        make(made)
    except BaseException:
        unmake(made[::-1])
        raise
    made.reverse()
    return made


def make_directory(path: str, made: "list[str]") -> None:
    """Make one directory and append it. Errors: FileExistsError; SysError for all other causes."""
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        raise
    except OSError as error:
        raise SysError.of("make cgroup", error, path) from None
    made.append(path)


def unmake(made: "list[str]") -> None:
    """Remove directories that were just made (deepest first); what cannot be removed stays."""
    for path in made:
        try:
            os.rmdir(path)
        except OSError:
            pass


def lines(path: str) -> "list[str]":
    """Return the lines of a control file, [] when there is none."""
    try:
        return read(path).split("\n")
    except OSError:
        return []


def key_values(path: str) -> "dict[str, int]":
    """Return a flat keyed file ("name value" lines), {} when there is none."""
    found: dict[str, int] = {}
    for line in lines(path):
        name, _, value = line.partition(" ")
        if value.isdigit():
            found[name] = int(value)
    return found


def number(path: str) -> int:
    """Return a one-number file; "max" as UNLIMITED, a missing file as 0."""
    try:
        text = read(path)
    except OSError:
        return 0
    if text == "max":
        return UNLIMITED
    return int(text) if text.lstrip("-").isdigit() else 0


def cpu_list(text: str) -> "list[int]":
    """Return "0-2,4" as [0, 1, 2, 4] (cpuset(7), list format). Errors: ValueError."""
    found: list[int] = []
    for part in text.split(","):
        if part:
            low, _, high = part.partition("-")
            first, last = int(low), int(high or low)
            if last > 0xFFFF:
                raise ValueError(f"number {last} in {text!r} is too large")
            found.extend(range(first, last + 1))
    return found
