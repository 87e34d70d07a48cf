"""A blocking HTTP/2 instance for tests (prior knowledge): one handler call for each complete request."""

from __future__ import annotations

import socket
from collections.abc import Callable

import h2.config
import h2.connection
import h2.events
import h2.exceptions


class H2Server:
    """Serves one connection; `handle(server, stream, headers, body, trailers)` answers."""

    def __init__(self, sock: socket.socket, handle: Callable[..., None], **config: bool) -> None:
        self.sock = sock
        self.handle = handle
        self.conn = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None, **config)
        )
        self.conn.initiate_connection()
        self.requests: dict[int, list] = {}
        self.resets: list[int] = []
        self.flush()

    def flush(self) -> None:
        self.sock.sendall(self.conn.data_to_send())

    def serve(self) -> None:
        while data := self.sock.recv(65536):
            for event in self.conn.receive_data(data):
                self.event(event)
            self.flush()

    def event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = [event.headers, b"", []]
        elif isinstance(event, h2.events.DataReceived):
            self.requests[event.stream_id][1] += event.data
            self.conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            self.requests[event.stream_id][2] = event.headers
        elif isinstance(event, h2.events.StreamReset):
            self.resets.append(event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            headers, body, trailers = self.requests[event.stream_id]
            self.handle(self, event.stream_id, headers, body, trailers)

    def answer(
        self,
        stream: int,
        status: int = 200,
        headers: list[tuple[bytes, bytes]] | None = None,
        body: bytes = b"",
        trailers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        """Answers in full; a body longer than the window waits for WINDOW_UPDATE."""
        conn = self.conn
        conn.send_headers(
            stream, [(b":status", b"%d" % status), *(headers or [])], end_stream=not body and trailers is None
        )
        while body:
            size = min(len(body), conn.local_flow_control_window(stream), conn.max_outbound_frame_size)
            if not size:
                self.flush()
                for event in conn.receive_data(self.sock.recv(65536)):
                    self.event(event)
                continue
            conn.send_data(stream, body[:size], end_stream=size == len(body) and trailers is None)
            body = body[size:]
        if trailers is not None:
            conn.send_headers(stream, trailers, end_stream=True)
        self.flush()
