"""Directories that go: renamed at once, removed later by a thread of their own.

A payload decides how many files an instance has left, and an image how many a layer has. A removal of millions takes minutes,
during which it must not hold a thread of the commands, the lock of an instance, or the start of a worker. What a worker leaves
in the directory is removed by the next one.
"""

import os
import queue
import threading
import time

from krun.errors import SysError
from krun.serve.run.errors import complain
from krun.treeio import remove_tree


class Trash:
    """A directory of what is to be removed. Argument: directory, on the file system of what comes into it. Raises OSError."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        os.makedirs(directory, 0o700, exist_ok=True)
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waiting = 0

    def start(self) -> None:
        """Remove what an earlier worker has left."""
        for name in os.listdir(self.directory):
            self._order(os.path.join(self.directory, name))

    def put(self, path: str) -> None:
        """Take a tree away from its path, now, and remove it later; gone already is no error. From any thread. Raises SysError."""
        target = os.path.join(self.directory, f"{os.path.basename(path)[:200]}.{os.urandom(8).hex()}")
        try:
            os.rename(path, target)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SysError.of("remove", error, path) from None
        self._order(target)

    def wait(self, seconds: float) -> None:
        """Wait until everything has been removed, at most `seconds`; the next worker removes the rest."""
        end = time.monotonic() + seconds
        while self._waiting and time.monotonic() < end:
            time.sleep(0.01)

    def _order(self, path: str) -> None:
        with self._guard:
            self._waiting += 1
            self._queue.put(path)
            if self._thread is None:
                # A daemon: the end of the worker does not wait for it.
                self._thread = threading.Thread(target=self._run, name="trash", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            path = self._queue.get()
            try:
                remove_tree(path)
            except Exception as error:  # a tree that does not go stops no other
                complain(f"krun serve worker: remove {path}: {error}\n")
            with self._guard:
                self._waiting -= 1
