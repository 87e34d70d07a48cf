"""The worker's threads, in lanes: commands that may hang hold up only their own kind.

A registry that does not answer holds a pull for ten minutes, a program holds an exec probe for its time-out, a tree of a payload
holds a measurement: none of these keeps an instance from starting or ending.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: The threads of each lane; they are made when they are needed.
_THREADS = {"quick": 4, "starts": 16, "ends": 16, "images": 8, "storage": 4, "probes": 256, "sessions": 64}
_LANES = {
    "hello": "quick",
    "kill": "quick",
    "forget": "quick",
    "link": "quick",
    "stop": "quick",
    "sandbox": "starts",
    "start": "starts",
    "netns": "ends",
    "pause": "ends",
    "publish": "ends",
    "remove": "ends",
    "image": "images",
    "collect": "storage",
    "usage": "storage",
    "exec": "probes",
    "program": "sessions",
    "program-kill": "quick",
    "doors": "quick",
}
#: Programs of exec probes of one instance at a time: three probes of each container, and one that is being killed.
_EXECS = 16


class Lanes:
    """The threads. All methods are the main thread's."""

    def __init__(self) -> None:
        self._pools = {name: ThreadPoolExecutor(most, name) for name, most in _THREADS.items()}
        self._execs: Counter[str] = Counter()

    def take(self, message: dict[str, Any]) -> str:
        """Count a command of the server; `give` follows its answer. Returns why it is refused, "" where it is not."""
        if message["do"] == "exec":
            if self._execs[message["id"]] >= _EXECS:
                return f"{_EXECS} programs of exec probes of {message['id']} have not ended"
            self._execs[message["id"]] += 1
        return ""

    def give(self, message: dict[str, Any]) -> None:
        """The command has been answered."""
        if message["do"] == "exec":
            self._execs[message["id"]] -= 1
            self._execs += Counter()  # without those that have none

    def submit(self, message: dict[str, Any], call: Callable[[], None]) -> None:
        """Run a command's call in a thread of its lane."""
        self._pools[_LANES.get(message["do"], "starts")].submit(call)

    def shutdown(self) -> None:
        """Wait for all threads."""
        for pool in self._pools.values():
            pool.shutdown()
