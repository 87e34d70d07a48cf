"""A blocking HTTP/2 client for tests, frame by frame: what it sends is the test's, also what no client would send."""

from __future__ import annotations

import socket

import h2.config
import h2.connection
import h2.events


class H2Peer:
    """One connection with prior knowledge, or over a TLS socket whose ALPN chose h2."""

    def __init__(self, sock: socket.socket, timeout: float = 3.0, **config: bool) -> None:
        self.sock = sock
        sock.settimeout(timeout)
        self.conn = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding=None, **config)
        )
        self.conn.initiate_connection()
        self.closed = False
        #: Everything that came: stream -> {"status", "headers", "body", "trailers", "ended", "reset"}.
        self.streams: dict[int, dict] = {}
        self.goaway: int | None = None
        self.flush()

    def flush(self) -> None:
        try:
            self.sock.sendall(self.conn.data_to_send())
        except OSError:
            self.closed = True

    def request(
        self,
        method: str = "GET",
        path: str = "/",
        *,
        host: str = "a",
        headers: list[tuple[bytes, bytes]] | None = None,
        body: bytes | None = None,
        end: bool = True,
    ) -> int:
        stream = self.conn.get_next_available_stream_id()
        fields = [
            (b":method", method.encode()),
            (b":scheme", b"http"),
            (b":authority", host.encode()),
            (b":path", path.encode()),
            *(headers or []),
        ]
        self.streams[stream] = {
            "status": None,
            "headers": [],
            "body": b"",
            "trailers": None,
            "ended": False,
            "reset": None,
            "interim": [],
        }
        self.conn.send_headers(stream, fields, end_stream=body is None and end)
        if body is not None:
            while body:
                size = min(
                    len(body), self.conn.local_flow_control_window(stream), self.conn.max_outbound_frame_size
                )
                if not size:
                    self.flush()
                    self.receive()
                    continue
                self.conn.send_data(stream, body[:size])
                body = body[size:]
            if end:
                self.conn.end_stream(stream)
        self.flush()
        return stream

    def receive(self, acknowledge: bool = True) -> bool:
        """Takes what comes next; False at the end of the connection or after the time-out."""
        try:
            data = self.sock.recv(65536)
        except TimeoutError:
            return False
        except OSError:
            self.closed = True
            return False
        if not data:
            self.closed = True
            return False
        for event in self.conn.receive_data(data):
            self._event(event, acknowledge)
        self.flush()
        return True

    def _event(self, event: h2.events.Event, acknowledge: bool) -> None:
        stream = self.streams.get(getattr(event, "stream_id", 0) or 0)
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = int(event.error_code or 0)
        elif stream is None:
            return
        elif isinstance(event, h2.events.InformationalResponseReceived):
            stream["interim"].append(int(dict(event.headers)[b":status"]))
        elif isinstance(event, h2.events.ResponseReceived):
            stream["headers"] = event.headers
            stream["status"] = int(dict(event.headers)[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            stream["body"] += event.data
            if acknowledge and event.flow_controlled_length:
                self.conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            stream["trailers"] = event.headers
        elif isinstance(event, h2.events.StreamEnded):
            stream["ended"] = True
        elif isinstance(event, h2.events.StreamReset):
            stream["reset"] = int(event.error_code)

    def answer(self, stream: int) -> dict:
        """Reads until the stream has ended, and returns what came on it."""
        state = self.streams[stream]
        while not state["ended"] and state["reset"] is None and self.receive():
            pass
        return state

    def close(self) -> None:
        self.sock.close()
