"""The payload's working directory: made where it is missing, entered, checked (CVE-2024-21626)."""

import os
from errno import ENOENT

from krun.errors import KrunError, SysError
from krun.oci.steps import PATH, Context, Step, find_in_root, make_dir
from krun.sysio import (
    AT_FDCWD,
    RESOLVE_NO_MAGICLINKS,
    try_openat2,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


def enter_cwd(cwd: str) -> None:
    """Changes to the payload's working directory and makes sure that it lies inside the container.

    No magic link is followed, so that /proc/self/fd/7 leads nowhere (CVE-2024-21626); were one followed, getcwd(2)
    would answer "(unreachable)" or ENOENT. Raises SysError, KrunError.
    """
    what = f'("{cwd}") set in config.json failed'
    fd = try_openat2(AT_FDCWD, cwd, PATH | os.O_DIRECTORY, RESOLVE_NO_MAGICLINKS)
    if fd < 0:
        raise SysError("chdir to cwd", what, -fd)
    try:
        os.fchdir(fd)
    except OSError as e:
        raise SysError("chdir to cwd", what, e.errno or 0) from None
    finally:
        os.close(fd)
    try:
        here = os.getcwd()
    except OSError as e:
        raise SysError(
            "getcwd", cwd, e.errno or 0, "current working directory is outside of container"
        ) from None
    if not here.startswith("/"):
        raise KrunError(f'current working directory "{cwd}" is outside of container mount namespace root')


class MakeCwd(Step):
    """Makes process.cwd where it is missing, as root of the container, as runc does."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def describe(self) -> str:
        return f"make {self.path} if it is missing"

    def execute(self, ctx: Context) -> None:
        # A cwd that leads through a magic link is not made, only entered and then refused by enter_cwd.
        fd = find_in_root(ctx.root, self.path)
        if fd == -ENOENT:
            fd = make_dir(ctx.root, self.path)
        if fd >= 0:
            os.close(fd)
