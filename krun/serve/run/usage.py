"""The local storage that an instance takes, as the kubelet counts it without quotas: by walking (volume/util/fs/fs.go, DiskUsage).
The platform's own files that a payload can write count, too: /etc/hosts (pkg/kubelet/stats, EtcHostsStats), the termination log.

A file that is open and has no name any more is not counted, neither here nor there.
"""

import os
import subprocess
import time
from collections.abc import Iterable, Mapping

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
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a line of each name that vanishes: the payload's, long and without end
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KrunError(f"measure {path}: not done after {seconds:.3g} s; it has too many files") from None
    word = done.stdout.partition("\t")[0]
    return int(word) if word.isdecimal() else 0


def of_instance(
    volumes: Mapping[str, str], containers: Mapping[str, list[str]], seconds: float = _SECONDS
) -> "dict[str, dict[str, int]]":
    """Return {"volumes": {name: bytes}, "containers": {name: bytes}}. Arguments: the directories of each.

    Raises KrunError after `seconds` for all of them: an instance with many directories holds up the others no longer than one with one.
    """
    end = time.monotonic() + seconds

    def measure(path: str) -> int:
        return of_directory(path, max(0.0, end - time.monotonic()))

    return {
        "volumes": {name: measure(path) for name, path in volumes.items()},
        "containers": {name: sum(measure(path) for path in paths) for name, paths in containers.items()},
    }


def of_files(paths: Iterable[str]) -> int:
    """Return the bytes that single files take; one that has gone takes none. No symlink is followed."""
    found = 0
    for path in paths:
        try:
            found += os.lstat(path).st_blocks * 512
        except FileNotFoundError:
            continue
    return found
