"""The /dev/log of an instance, in the worker: a thread of its own from the first message on (krun/inbox.py says why)."""

import selectors
import signal
import socket
import traceback
from collections.abc import Callable

from krun.inbox import Inbox
from krun.serve.run.errors import complain

#: The signal that ends a wait of a thread; the worker has a handler that does nothing.
INTERRUPT = signal.SIGURG


class Syslog:
    """Argument: sock, bound. The thread waits until the main thread has written a message: a flood is held back in the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._inbox = Inbox(sock, self._take)
        self._selector: selectors.BaseSelector | None = None  # while no message has come
        self._ended = False

    def listen(
        self,
        selector: selectors.BaseSelector,
        on_main: "Callable[[Callable[[], None]], None]",
        write: "Callable[[bytes], None]",
    ) -> None:
        """Begin. Arguments: selector of the main thread, which calls this; on_main, runs a call there; write, takes a message, there."""
        self._on_main = on_main
        self._write = write
        selector.register(self._inbox.fileno(), selectors.EVENT_READ, self._begin)
        self._selector = selector

    def _begin(self) -> None:
        self._unwatch()
        self._inbox.start()

    def _unwatch(self) -> None:
        if self._selector is not None:
            self._selector.unregister(self._inbox.fileno())
            self._selector = None

    def _take(self, data: bytes) -> bool:
        try:
            self._on_main(lambda: None if self._ended else self._write(data + b"\n"))
        except Exception:  # one bad message is no reason to lose the others
            complain(traceback.format_exc())
        return not self._ended

    def close(self) -> None:
        """Give the socket back. On the main thread, or before `listen`. Idempotent."""
        self._ended = True
        self._unwatch()
        self._inbox.close()

    def ends(self) -> bool:
        """After `close`: end a wait of the thread (a socket of a payload, SO_LINGER). Return whether the thread has ended."""
        return not self._inbox.interrupt(INTERRUPT)
