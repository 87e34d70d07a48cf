"""One request on its way through the proxy: it waits for a slot, goes to an instance, and its response comes back.

No task and no copy for a request: both connections call this object, and it calls them.  The order of ends is one function: `_finish`
returns the slot exactly once, whichever side ended first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from krun.serve.http.head import CHUNKED, Head
from krun.serve.http.stream import Incoming, Sink
from krun.serve.http.types import Headers
from krun.serve.proxy import headers as fields
from krun.serve.proxy.outgoing import Outgoing, Receiver
from krun.serve.proxy.pool import Pool
from krun.serve.proxy.queue import Backend, RevisionQueue
from krun.serve.proxy.routes import HostRoute, Target
from krun.serve.proxy.up1 import Up1
from krun.serve.proxy.up2 import Up2

if TYPE_CHECKING:
    from krun.serve.proxy.ingress import Ingress

#: Methods that may be sent again after a connection that had been idle failed (as Go's http.Transport).
_REPLAYABLE = frozenset((b"GET", b"HEAD", b"OPTIONS", b"TRACE"))

#: The status in logs and metrics of a request whose client went away (nginx's).
CLIENT_GONE = 499

#: Seconds without a byte after which a tunnel ends of which one half has ended (HAProxy: timeout client-fin).
HALF_CLOSED = 60.0

#: Bytes of a request beside its head, and of a field beside its text; a head is kept as it came and in fields.
_REQUEST, _FIELD = 4096, 200
_NO_MEMORY = "the requests that are here take all the memory for them"

_TEXT: Headers = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"X-Content-Type-Options", b"nosniff")]


class Exchange(Sink, Receiver):
    """A request and its response.  Times are loop.time()."""

    __slots__ = (
        "_body_parts", "_client_ended", "_done", "_ended", "_extra", "_half", "_memory", "_paused", "_retried", "_stopped", "_trailers",
        "_tunnel", "_up", "_up_ended", "backend", "cold", "deadline", "first", "incoming", "ingress", "queue", "route", "sent",
        "slot", "size", "start", "started", "status", "tag",
    )  # fmt: skip

    def __init__(
        self,
        ingress: Ingress,
        incoming: Incoming,
        route: HostRoute,
        target: Target,
        extra: Headers,
        now: float,
    ) -> None:
        self.ingress = ingress
        self.incoming = incoming
        self.route = route
        self.queue: RevisionQueue = target.queue
        self.tag = target.tag or route.tag
        self.backend: Backend | None = None
        self.start = now
        #: When the request was sent to the instance, and when its response began.
        self.sent = 0.0
        self.first = 0.0
        self.deadline: float | None = None
        self.slot = 0
        self.started = False
        #: It arrived when there was no instance.
        self.cold = not self.queue.backends
        self.status = 0
        #: Bytes of the response's body.
        self.size = 0
        self._extra = extra
        self._memory = ingress.memory.share(incoming.peer)
        self._up: Outgoing | None = None
        self._body_parts: list[bytes] | None = None
        self._ended = False
        self._trailers: Headers = []
        #: The body is held back until there is an instance; the client does not read.
        self._paused = self._stopped = False
        self._retried = False
        self._tunnel = False
        self._client_ended = False
        self._up_ended = False
        self._half = False
        self._done = False

    def begin(self) -> None:
        """Enters the revision's queue."""
        self.incoming.consume(self)
        head = self.incoming.head
        if not self._memory.set(_REQUEST + 2 * len(head.raw) + _FIELD * len(head.headers)):
            self._no_memory()
            return
        config = self.queue.config
        limit = config.timeout
        if config.response_start and (not limit or config.response_start < limit):
            limit = config.response_start
        if limit:
            self.deadline = self.start + limit
            self.ingress.wheel.watch(self)
        self.queue.enter(self, self.start)

    # ------------------------------------------------------------------------------------ the queue (Waiter)

    @property
    def client(self) -> str:
        return self._memory.client

    def attach(self, backend: Backend) -> None:
        self.backend = backend
        if backend.pool is None:
            ingress = self.ingress
            http2 = self.queue.config.protocol == "h2c"
            backend.pool = Pool(backend, http2, ingress.limits, ingress.wheel, ingress.room)
        self._send(backend.pool, True)

    def refuse(self, status: int, text: str) -> None:
        self._reply(status, text + "\n", retry=True)

    def _no_memory(self) -> None:
        self.ingress.metrics.refused(503, _NO_MEMORY)
        self._reply(503, _NO_MEMORY + "\n", retry=True)

    # ------------------------------------------------------------------------------- to the instance (Wanting)

    def _send(self, pool: Pool, pooled: bool) -> None:
        """Sends the request by an idle connection, or asks for a new one."""
        if self.queue.config.protocol == "h2c":
            link = pool.link()
            if link is None or not self._go2(link):
                pool.open(self)
            return
        head = self.incoming.head
        now = self.ingress.wheel.now()
        up = pool.take(now, head.length == 0 and head.method in _REPLAYABLE) if pooled else None
        if up is None:
            pool.open(self)
        else:
            self._go1(up)

    def connected(self, connection: Up1 | Up2) -> bool:
        if self._done:
            return False
        if isinstance(connection, Up1):
            self._go1(connection)
        elif not self._go2(connection):
            self.unreachable("the instance's connection takes no request")
        return True

    def unreachable(self, text: str) -> None:
        if not self._moved():
            self._reply(502, text + "\n")

    def crowded(self, text: str) -> None:
        self.queue.crowded += 1
        if not self._moved():
            self._reply(503, text + "\n", retry=True)

    def _moved(self) -> bool:
        """Whether another instance takes the request, which is asked for once, or the request has ended."""
        if self._done or self.backend is None:
            return True
        if self._retried or self._up is not None:
            return False
        self._retried = True
        return self.queue.another(self, self.backend, self.ingress.wheel.now())

    def _go1(self, up: Up1) -> None:
        incoming = self.incoming
        head = incoming.head
        peer = incoming.peer
        lines = fields.request_lines(
            head, peer[0] if isinstance(peer, tuple) else "", incoming.tls, self._extra, self.ingress.added
        )
        self.sent = self.ingress.wheel.now()
        self._up = up
        if self._paused and not self._ended:
            self._read_on()
        up.send(
            self, head.method, b"%b %b HTTP/1.1\r\n%b\r\n" % (head.method, head.target, lines), head.length
        )
        if head.length or self._stopped:
            self._forward(up)

    def _go2(self, link: Up2) -> bool:
        incoming = self.incoming
        head = incoming.head
        peer = incoming.peer
        address = peer[0] if isinstance(peer, tuple) else ""
        if self._paused and not self._ended:
            self._read_on()
        try:
            up = link.send(self, head, fields.request_fields(head, address, incoming.tls) + self._extra)
        except OSError:
            return False
        self.sent = self.ingress.wheel.now()
        self._up = up
        if head.length or self._stopped:
            self._forward(up)
        return True

    def _read_on(self) -> None:
        """Before the first byte of the request: it may be one too many for the instance, and then the pause must stay."""
        self._paused = False
        self.incoming.resume()

    def _forward(self, up: Outgoing) -> None:
        """Sends what has come of the body so far, and says what the client has said before there was an instance."""
        if self._stopped:
            up.pause()
        if not self.incoming.head.length:
            return
        parts, self._body_parts = self._body_parts, None
        if parts:
            for part in parts:
                up.write(part)
            # They are the connection's now, which tells when it has too many.
            self._memory.set(self._memory.size - sum(map(len, parts)))
        if self._ended:
            up.finish(self._trailers)

    # ------------------------------------------------------------------------------------ the client (Sink)

    def on_data(self, data: bytes) -> None:
        up = self._up
        if up is not None:
            up.write(data)
            if self._half:
                self._limit(self.ingress.wheel.now())
        elif not self._done:
            if self._body_parts is None:
                self._body_parts = []
            self._body_parts.append(data)
            if not self._memory.set(self._memory.size + len(data)):
                self.queue.leave(self, self.ingress.wheel.now())
                self._no_memory()
                return
            if not self._paused:
                self._paused = True
                self.incoming.pause()

    def on_end(self, trailers: Headers) -> None:
        if self._tunnel:
            self._client_ended = True
            if self._up is not None:
                self._up.finish([])
            if self._up_ended:
                self._finish()
            else:
                self.on_leaving()
            return
        self._ended = True
        self._trailers = trailers
        if self._up is not None and self.incoming.head.length:
            self._up.finish(trailers)

    def on_abort(self) -> None:
        if self._done:
            return
        if not self.started:
            self.status = CLIENT_GONE
        self.queue.leave(self, self.ingress.wheel.now())
        self._finish()

    def on_leaving(self) -> None:
        """One half of the tunnel has ended. The other one may go on, as long as something comes: who has gone looks the same."""
        self._half = True
        self._limit(self.ingress.wheel.now())

    def on_pause(self) -> None:
        self._stopped = True
        if self._up is not None:
            self._up.pause()

    def on_resume(self) -> None:
        self._stopped = False
        if self._up is not None:
            self._up.resume()

    # -------------------------------------------------------------------------------- the instance (Receiver)

    def up_head(self, head: Head, content: bytes, done: bool) -> None:
        self._started(head.status)
        incoming = self.incoming
        declared = head.index.get(b"content-length")
        if declared is not None:
            length = int(declared)
        elif done and incoming.head.method != b"HEAD" and head.status != 304:
            length = len(content)
        else:
            length = CHUNKED
        raw = None
        if not incoming.multiplexed and (declared is not None or not done):
            raw = fields.response_lines(head)
        headers = head.headers if raw is not None else fields.response_fields(head)
        if self.ingress.server_timing:
            extra = self._timing()
            headers = [*headers, extra]
            raw = raw + b"%b: %b\r\n" % extra if raw is not None else None
        self.size += len(content)
        if done:
            self._up = None
        incoming.respond(head.status, headers, length, content, raw=raw, end=done)
        if done:
            self._finish()

    def _started(self, status: int) -> None:
        self.started = True
        self.status = status
        now = self.first = self.ingress.wheel.now()
        config = self.queue.config
        if config.response_start or config.idle:
            self._limit(now)

    def _limit(self, now: float) -> None:
        """The deadline after the first byte: the end of the whole, and the next part."""
        config = self.queue.config
        deadline = self.start + config.timeout if config.timeout else None
        if config.idle and (deadline is None or now + config.idle < deadline):
            deadline = now + config.idle
        if self._half and (deadline is None or now + HALF_CLOSED < deadline):
            deadline = now + HALF_CLOSED
        self.deadline = deadline
        self.ingress.wheel.watch(self)

    def up_inform(self, status: int, headers: Headers) -> None:
        self.incoming.inform(
            status, [field for field in headers if field[0].lower() not in fields.CONNECTION]
        )

    def up_tunnel(self, head: Head) -> bool:
        if self.incoming.multiplexed or not fields.is_upgrade(self.incoming.head):
            return False
        self._started(101)
        self._tunnel = True
        self.incoming.tunnel(fields.tunnel_fields(head))
        return True

    def up_data(self, content: bytes) -> None:
        self.size += len(content)
        self.incoming.write(content)
        config = self.queue.config
        if config.idle or self._half:
            self._limit(self.ingress.wheel.now())

    def up_end(self, content: bytes, trailers: Headers) -> None:
        self.size += len(content)
        if self._tunnel:
            if content:
                self.incoming.write(content)
            if self._up_ended:
                return
            self._up_ended = True
            self.incoming.end_tunnel()
            if self._client_ended:
                self._finish()
            else:
                self.on_leaving()
            return
        self._up = None
        self.incoming.end(content, trailers)
        self._finish()

    def up_gone(self) -> None:
        """Both halves of the tunnel end: nobody takes what the client sends."""
        self._up = None
        self.incoming.end_tunnel(True)
        self._finish()

    def up_error(self, text: str, fresh: bool) -> None:
        self._up = None
        if self._done:
            return
        if self.started:
            self.incoming.abort()
            self._finish()
            return
        head = self.incoming.head
        if fresh and not self._retried and head.length == 0 and head.method in _REPLAYABLE:
            backend = self.backend
            if backend is not None and not backend.draining:
                self._retried = True
                self._send(backend.pool, False)
                return
        self._reply(502, text + "\n")

    def up_pause(self) -> None:
        self.incoming.pause()

    def up_resume(self) -> None:
        self.incoming.resume()

    # ---------------------------------------------------------------------------------------------- the end

    def expired(self, now: float) -> None:
        """The wheel's call.  What has begun ends cleanly with the text, as in Knative, where its framing permits; with a declared
        length, or where the revision asks for it, it is aborted.
        """
        self.deadline = None
        if self._done:
            return
        self.queue.leave(self, now)
        if not self.started:
            self._reply(504, "request timeout")
            return
        up, self._up = self._up, None
        if up is not None:
            up.abort()
        if self._tunnel or self.queue.config.abort_on_timeout:
            self.incoming.abort()
        else:
            # A response with a declared length is short then, and ends with an abort.
            self.incoming.end(b"request timeout")
        self._finish()

    def _reply(self, status: int, text: str, *, retry: bool = False) -> None:
        """An answer of the proxy itself."""
        if self._done:
            return
        data = text.encode()
        self.status = status
        self.started = True
        self.size = len(data)
        headers = [*_TEXT, (b"Retry-After", b"1")] if retry else _TEXT
        # The slot first: what the answer sets off must see it free.
        self._finish()
        self.incoming.respond(status, headers, len(data), data, end=True)

    def _finish(self) -> None:
        """Returns the slot; the only way out."""
        if self._done:
            return
        self._done = True
        ingress = self.ingress
        self.deadline = None
        if self.slot:
            ingress.wheel.forget(self)
        up, self._up = self._up, None
        if up is not None:
            up.abort()
        self._body_parts = None
        self._memory.set(0)
        now = ingress.wheel.now()
        backend = self.backend
        if backend is not None:
            self.queue.release(backend, now)
        ingress.finished(self, now)

    def _timing(self) -> tuple[bytes, bytes]:
        waited, ran = (self.sent - self.start) * 1e3, (self.first - self.sent) * 1e3
        return b"Server-Timing", b"queue;dur=%.1f, app;dur=%.1f" % (waited, ran)
