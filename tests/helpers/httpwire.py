"""What the fuzzers of the HTTP front have in common: a socket that keeps what is written, and requests as the front delivers them."""

from __future__ import annotations

import asyncio

from krun.serve.http.endpoint import Endpoint
from krun.serve.http.stream import Sink
from krun.serve.http.timers import Wheel


class Transport(asyncio.Transport):
    """A socket that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.out = b""
        self.closing = False

    def write(self, data):
        assert not self.closing
        self.out += data

    def close(self):
        self.closing = True

    def abort(self):
        self.closing = True

    def is_closing(self):
        return self.closing

    def get_write_buffer_size(self):
        return 0

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.closing = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Message(Sink):
    """A request as the front delivers it."""

    def __init__(self, incoming, log):
        self.incoming, self.log, self.body = incoming, log, b""
        incoming.consume(self)

    def on_data(self, data):
        assert data
        self.body += data

    def on_end(self, trailers):
        head = self.incoming.head
        self.log.append(
            (
                head.method,
                head.target,
                head.host,
                [(n.lower(), v) for n, v in head.headers],
                self.body,
                trailers,
            )
        )
        self.incoming.respond(200, [], 2, b"ok", end=True)


async def feed(protocol, limits, data, cuts, settle):
    """(requests, what was sent, whether the connection was ended) of a front for `data`, cut at `cuts`.

    protocol: makes the connection from an endpoint; settle: waits until a connection has read what it got.
    """
    log, errors = [], []
    wheel = Wheel(asyncio.get_running_loop())
    endpoint = Endpoint(lambda incoming: Message(incoming, log), wheel, limits, report=errors.append)
    connection, transport = protocol(endpoint), Transport()
    connection.connection_made(transport)
    at = 0
    for cut in [*cuts, len(data)]:
        if cut > at and not transport.closing:
            connection.data_received(data[at:cut])
            at = cut
            await settle(connection)
    ended = transport.closing
    connection.connection_lost(None)
    wheel.close()
    assert not errors, errors
    return log, transport.out, ended
