"""The local storage that an instance takes, as the kubelet counts it without quotas: by walking (volume/util/fs/fs.go, DiskUsage).

A file that is open and has no name any more is not counted, neither here nor there.
"""

import subprocess
from collections.abc import Mapping

from krun.errors import KrunError

_SECONDS = 60.0


def of_directory(path: str, seconds: float = _SECONDS) -> int:
    """Return the bytes that a directory takes on its file system. No symlink is followed. Raises KrunError after `seconds`.

    du(1) does it: a payload may nest directories deeper than Python recurses. What vanishes meanwhile is not counted.
    """
    try:
        done = subprocess.run(
            ["du", "-s", "-x", "-B1", "--", path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KrunError(f"measure {path}: not done after {seconds:g} s; it has too many files") from None
    word = done.stdout.partition("\t")[0]
    return int(word) if word.isdecimal() else 0


def of_instance(
    volumes: Mapping[str, str], containers: Mapping[str, list[str]]
) -> "dict[str, dict[str, int]]":
    """Return {"volumes": {name: bytes}, "containers": {name: bytes}}. Arguments: the directories of each. Raises KrunError."""
    return {
        "volumes": {name: of_directory(path) for name, path in volumes.items()},
        "containers": {name: sum(of_directory(path) for path in paths) for name, paths in containers.items()},
    }
