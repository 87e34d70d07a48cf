"""The collection of what no image needs any more: unpacked layers, layouts of archives, images that krun serve had podman pull.

The rules are the kubelet's (kubernetes, pkg/kubelet/images/image_gc_manager.go; KubeletConfiguration): an entry that is in use is
never removed; one that has been unused for imageMaximumGCAge is; and where the file system is fuller than the high threshold,
the least recently used ones go until the low threshold is met, but none that is younger than imageMinimumGCAge.

A crash at any moment leaves whole entries: one that goes is renamed into `trash` first, and the next worker empties that. An image of
podman's on another file system than the store's goes by its age only.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from krun.serve.run.image.store import Store

_SECONDS = 600.0


@dataclass(frozen=True)
class Rules:
    """Ages in seconds (most_age 0: no limit), thresholds in percent of the file system."""

    least_age: float = 120.0
    most_age: float = 0.0
    high: int = 85
    low: int = 80


def disk(path: str) -> tuple[int, int]:
    """Return the size and the available bytes of the file system of a path (statvfs(3)). Raises OSError."""
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def collect(
    store: Store,
    rules: Rules,
    used: Callable[[str], bool],
    disk: Callable[[str], tuple[int, int]] = disk,
    now: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Remove what the rules say.

    Arguments: used, whether a path is in use, which is asked again at the moment of the removal. Returns {"percent": used part of
    the file system, "wanted": bytes that the threshold asks for, "removed": [[name, bytes, "age" or "space"], ...]}.
    Raises OSError.
    """
    moment = now()
    entries = []
    for path in store.entries():
        if used(path):
            store.touch(path)
        else:
            entries.append((store.last_used(path), path))
    entries.sort()
    removed: list[list[Any]] = []
    left = []
    for last, path in entries:
        if rules.most_age and moment - last > rules.most_age:
            _take(store, path, used, "age", removed)
        elif store.is_here(path):
            left.append((last, path))
    size, available = disk(store.directory)
    percent = 100 - available * 100 // size if size else 0
    wanted = size * (100 - rules.low) // 100 - available if percent >= rules.high else 0
    freed = 0
    for last, path in left:
        if freed >= wanted:
            break
        if moment - last >= rules.least_age:
            freed += _take(store, path, used, "space", removed)
    return {"percent": percent, "wanted": wanted, "freed": freed, "removed": removed}


def _take(store: Store, path: str, used: Callable[[str], bool], reason: str, removed: list[list[Any]]) -> int:
    """Remove one entry; returns its bytes, 0 where it has come into use."""
    size, name = store.size(path, _SECONDS), store.name(path)
    if not store.discard(path, used):
        return 0
    removed.append([name, size, reason])
    return size
