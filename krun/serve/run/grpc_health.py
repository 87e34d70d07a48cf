"""The one gRPC call that a probe makes: grpc.health.v1.Health/Check (grpc, doc/health-checking.md), with h2 as HTTP/2."""

import asyncio
import socket

from krun.errors import KrunError

SERVING = 1
_WORDS = {0: "UNKNOWN", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_LONGEST = 64 << 10
_FRAMES = 100  # that bring nothing: the time of a probe is the program's owner's to choose


async def check(sock: socket.socket, service: str) -> "int | str":
    """Ask over a connected socket; returns SERVING, or a word for another status. Raises OSError, KrunError."""
    try:
        from h2.config import H2Configuration
        from h2.events import ConnectionTerminated, DataReceived, StreamEnded, StreamReset, TrailersReceived
        from h2.exceptions import ProtocolError

        from krun.serve.http.h2limits import Library
    except ImportError:
        raise KrunError("gRPC probe: the Python package h2 is missing; install krun[serve]") from None
    loop = asyncio.get_running_loop()
    connection = Library(H2Configuration(client_side=True, header_encoding="utf-8"))
    connection.room = _FRAMES
    connection.initiate_connection()
    name = service.encode()
    message = (b"\x0a" + _varint(len(name)) + name) if name else b""  # HealthCheckRequest{1: service}
    head = [(":method", "POST"), (":scheme", "http"), (":path", "/grpc.health.v1.Health/Check"), (":authority", "localhost"),
            ("content-type", "application/grpc"), ("te", "trailers"), ("user-agent", "kube-probe/krun")]  # fmt: skip
    connection.send_headers(1, head)
    connection.send_data(1, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
    await loop.sock_sendall(sock, connection.data_to_send())
    body = b""
    trailers: dict[str, str] = {}
    while data := await loop.sock_recv(sock, 16384):
        try:
            events = connection.receive_data(data)
        except ProtocolError as error:
            raise KrunError(f"gRPC probe: the program does not speak HTTP/2: {error}") from None
        for event in events:
            if isinstance(event, DataReceived):
                body += event.data
                connection.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            elif isinstance(event, TrailersReceived):
                trailers = {str(key): str(value) for key, value in event.headers}
            elif isinstance(event, (StreamReset, ConnectionTerminated)):
                raise KrunError("gRPC probe: the program ended the stream")
            elif isinstance(event, StreamEnded):
                return _status(body, trailers)
        if len(body) > _LONGEST:
            raise KrunError("gRPC probe: the answer is too long")
        await loop.sock_sendall(sock, connection.data_to_send())
        await asyncio.sleep(
            0
        )  # neither call waits while there is something to read: thousands of frames, from a program that floods
    raise KrunError("gRPC probe: the program closed the connection")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _status(body: bytes, trailers: dict[str, str]) -> "int | str":
    """HealthCheckResponse{1: status}, an enumeration of one byte."""
    if trailers.get("grpc-status", "0") != "0":
        return f"grpc-status {trailers['grpc-status']} {trailers.get('grpc-message', '')}".strip()
    message = body[5:]
    number = message[1] if len(message) >= 2 and message[0] == 0x08 else 0
    return number if number == SERVING else _WORDS.get(number, str(number))
