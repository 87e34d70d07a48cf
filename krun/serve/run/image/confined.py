"""A child process for what reads hostile archives: bounded in memory, processor time and size of a file.

tarfile keeps a header's text, a sparse file's map and every entry in memory, and some archives make it loop for ever
(CVE-2025-8194). What such an archive does happens to the child: the worker, which holds all instances, goes on. The child ends
with the thread that waits for it.
"""

import os
import resource
from collections.abc import Callable, Iterable

from krun.errors import KrunError, strerror
from krun.sysio import close_all_but, die_with_parent

_MEMORY = 512 << 20  # bytes beyond what the worker has mapped
_SECONDS = 1800  # of processor time: 16 GiB of gzip take some 200
_SHOWN = 1000  # bytes of the child's message


def run(call: Callable[[], None], limit: int, root: "str | None" = None, keep: "Iterable[int]" = ()) -> None:
    """Run a call in a child.

    Arguments: limit, bytes that a file may have; root, a directory that becomes the child's root; keep, the descriptors that
    the call uses. It has no other of the worker's (lock, network namespaces, ends of pipes whose readers wait for the end).
    Raises KrunError with the child's one line. What the call has changed in memory ends with the child.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            close_all_but([writing, *keep])
            die_with_parent()
            _bound(limit)
            os.umask(0)
            if root is not None:
                os.chroot(root)
                os.chdir("/")
            call()
            status = 0
        except BaseException as error:
            os.write(writing, _text(error).encode("utf-8", "replace")[:_SHOWN])
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read(_SHOWN).decode("utf-8", "replace")
    _, result = os.waitpid(pid, 0)
    if result:
        raise KrunError(text or f"its reader ended with status {os.waitstatus_to_exitcode(result)}")


def _bound(limit: int) -> None:
    with open("/proc/self/statm", "rb") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    for kind, value in (
        (resource.RLIMIT_AS, mapped + _MEMORY),
        (resource.RLIMIT_CPU, _SECONDS),
        (resource.RLIMIT_FSIZE, limit),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or value < hard:
            resource.setrlimit(kind, (value, value))


def _text(error: BaseException) -> str:
    """The line of an error. A name of the archive is quoted: it may hold control characters."""
    if isinstance(error, MemoryError):
        return f"its headers need more than {_MEMORY >> 20} MiB of memory"
    if isinstance(error, KrunError):
        return error.message
    if isinstance(error, OSError) and error.errno:
        name = f": {str(error.filename)[:200]!a}" if error.filename is not None else ""
        return f"{strerror(error.errno)}{name}"
    return f"{type(error).__name__}: {str(error)[:200]}"
