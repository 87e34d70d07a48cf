"""Places in the container's tree, found from the mounts that krun has attached, and not by their names below the root.

A name means another place as soon as a process that shares the root directory (a second container of the same image, a
program of the host) renames a directory of it. A mount follows the directory that it lies on: the procfs on /proc is then elsewhere,
and what is masked or mounted at /proc/... by name protects nothing. So a step keeps the descriptor of each mount below which a later
step has something to do (Context.attached), and the later step begins there. Names of the image, above the first mount, stay names.
"""

import os
from errno import EEXIST, ELOOP, ENOENT, ENOTDIR, EXDEV
from stat import S_ISLNK

from krun.errors import KrunError, SysError
from krun.mountio import move_mount
from krun.oci.steps import PATH, Context, clean, find_in_root, make_dir, make_file
from krun.sysio import RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, mount_id, try_openat2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A relative link may be followed as long as it stays in the mount; one that leads out of it is EXDEV.
_BENEATH = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS


def with_parents(path: str) -> "Iterator[str]":
    """Yields a container path and the directories above it, without "/"."""
    path = clean(path)
    while path != "/":
        yield path
        path = path.rpartition("/")[0] or "/"


def _base(ctx: Context, path: str) -> "tuple[int, str]":
    """Returns the last attached mount that `path`, cleaned, lies in, -1 if it is the root's; and the path below it."""
    for name, fd in reversed(ctx.attached):
        if path == name or path.startswith(name + "/"):
            return fd, path[len(name) + 1 :]
    return -1, path


def find(ctx: Context, path: str, flags: int = PATH) -> int:
    """Opens an existing place, an O_PATH descriptor. Returns the negative errno if it fails."""
    path = clean(path)
    fd, rest = _base(ctx, path)
    if fd >= 0:
        found = try_openat2(fd, rest, flags, _BENEATH) if rest else os.dup(fd)
        if found != -EXDEV:
            return found
    return find_in_root(ctx.root, path, flags)


def find_all(ctx: Context, path: str) -> "list[int]":
    """Opens every place that a path to be hidden or made read-only may mean: that in the attached mount, and the one that the
    name leads to, if it is another one. Returns O_PATH descriptors, none if there is nothing. Raises SysError.

    Both, because the name decides where a link of the image leads to a mount that covers the other one.
    """
    found = [find(ctx, path), find_in_root(ctx.root, path)]
    for fd in found:
        if fd < 0 and fd not in (-ENOENT, -ENOTDIR):
            close_all(found)
            raise SysError("open", path, -fd)
    found = [fd for fd in found if fd >= 0]
    if len(found) == 2 and same(found[0], found[1]):
        os.close(found.pop())
    return found


def close_all(fds: "list[int]") -> None:
    """Closes those of the descriptors that are not negative."""
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def same(one: int, other: int, known: "os.stat_result | None" = None) -> bool:
    """Tells whether two descriptors are of one file on one mount. Raises OSError, SysError.

    Arguments: one; other; known, the stat of `other`, if the caller compares it with many.
    """
    return os.path.samestat(os.fstat(one), known or os.fstat(other)) and mount_id(one) == mount_id(other)


def directory(ctx: Context, path: str) -> int:
    """Opens a directory, made with its parents where it is missing. Returns an O_PATH descriptor. Raises SysError."""
    return _open_or_make(ctx, clean(path), PATH | os.O_DIRECTORY, make_dir)


def file(ctx: Context, path: str) -> int:
    """Opens a file, made empty with its parents where it is missing. Returns an O_PATH descriptor. Raises SysError."""
    return _open_or_make(ctx, clean(path), PATH, make_file)


def _open_or_make(ctx: Context, path: str, flags: int, make: "Callable[[int, str], int]") -> int:
    fd, rest = _base(ctx, path)
    if fd < 0:
        return make(ctx.root, path)
    found = try_openat2(fd, rest, flags, _BENEATH) if rest else os.dup(fd)
    if found >= 0:
        return found
    if found == -EXDEV:
        return make(ctx.root, path)
    if found != -ENOENT:
        raise SysError("open", path, -found)
    try:
        return make(fd, rest)
    except SysError as e:
        raise SysError(e.op, path, e.errno) from None


def plain_directory(ctx: Context, path: str, what: str) -> int:
    """As `directory`, for a place where a link of the image is refused (CVE-2019-19921, CVE-2023-27561: /proc, /sys).

    Arguments: ctx; path; what, for the error: what was to be mounted. Raises SysError; KrunError for a link.
    """
    path = clean(path)
    if _base(ctx, path)[1] == "" or path == "/":
        return directory(ctx, path)
    folder, _, name = path.rpartition("/")
    parent = directory(ctx, folder or "/")
    try:
        while True:
            try:
                return os.open(name, PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            except FileNotFoundError:
                _make_name(parent, name)
    except OSError as e:
        if e.errno in (ENOTDIR, ELOOP) and _is_link(parent, name):
            raise KrunError(
                f'{what} must be mounted on ordinary directory: "{path}" is a symbolic link'
            ) from None
        raise SysError("open directory", path, e.errno or 0) from None
    finally:
        os.close(parent)


def _make_name(parent: int, name: str) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except OSError as e:
        if e.errno != EEXIST:
            raise


def _is_link(parent: int, name: str) -> bool:
    try:
        return S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def attach(ctx: Context, fd: int, place: int, name: str) -> None:
    """Attaches the detached mount `fd` at `place`; a kept mount that it covers is from now on this one. Raises SysError.

    Arguments: ctx; fd, place; name, of the destination, for errors.
    """
    here = os.fstat(place)
    covered = [kept for _, kept in ctx.attached if same(kept, place, here)]
    move_mount(fd, place, name)
    for kept in covered:
        os.dup2(fd, kept, inheritable=False)
