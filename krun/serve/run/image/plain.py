"""Files below the directory of an image, whose owner may lay links, FIFOs and devices there: nothing else is read, nothing waits."""

import os
import stat
from errno import EFBIG, EINVAL

from krun.errors import KrunError
from krun.sysio import RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, try_openat2

#: Bytes of a JSON document of an image.
LARGEST_JSON = 4 << 20


def read(directory: str, name: str, limit: int = LARGEST_JSON) -> bytes:
    """Return the bytes of a file. Arguments: directory, which is followed; name below it, which is not; limit, bytes.

    Raises OSError: ELOOP where a part of the name is a symbolic link, EINVAL for what is no regular file, EFBIG beyond the limit.
    """
    path = os.path.join(directory, name)
    parent = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # O_NONBLOCK: the open of a FIFO without a writer would wait.
        fd = try_openat2(
            parent, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS
        )
    finally:
        os.close(parent)
    if fd < 0:
        raise OSError(-fd, os.strerror(-fd), path)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(EINVAL, "no regular file", path)
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(EFBIG, f"larger than {limit} bytes", path)
    return data


def open_regular(path: str) -> int:
    """Return a descriptor of a regular file, for reading; links are followed: a layout may have them, and its content has digests.

    Raises OSError, and KrunError for what is no regular file, which is not opened: that could wait (a FIFO), or set something off
    (a device).
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise KrunError(f"{path} is no regular file")
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)
