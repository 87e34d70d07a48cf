"""WebSocket and SPDY as kubectl's exec and port-forward speak them: frames, bounds, handshakes; mutants of both."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import zlib
from collections.abc import Callable
from typing import cast

import pytest
from helpers.wsclient import Client, Spdy, handshake, masked

from krun.serve.api.portforward import Forwarder
from krun.serve.http import spdy, websocket
from krun.serve.http.server import serve
from krun.serve.http.types import Duplex, HttpError, Request, Response, Tunnel
from krun.serve.http.websocket import FrameError, Frames, WebSocket

_KEY = {b"sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ==", b"sec-websocket-version": b"13"}
_ASK = {
    b"upgrade": b"websocket",
    b"connection": b"keep-alive, Upgrade",
    b"sec-websocket-protocol": b"x, v5, v4",
}


def test_the_handshake_of_the_specification() -> None:
    """RFC 6455, section 1.3."""
    headers, chosen = websocket.accept(Request(b"GET", b"/", [*(_KEY | _ASK).items()]), ("v4", "v5"))
    assert chosen == "v4" and dict(headers)[b"sec-websocket-accept"] == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    "method, change, code",
    [
        (b"POST", {}, 400), (b"GET", {b"upgrade": b"h2c"}, 400), (b"GET", {b"connection": b"close"}, 400),
        (b"GET", {b"sec-websocket-version": b"8"}, 426), (b"GET", {b"sec-websocket-key": b"c2hvcnQ="}, 400),
        (b"GET", {b"sec-websocket-key": b"*"}, 400), (b"GET", {b"sec-websocket-protocol": b"base64.v4"}, 400),
        (b"GET", {b"content-length": b"5"}, 400),
    ],
)  # fmt: skip
def test_a_handshake_that_is_refused(method: bytes, change: dict[bytes, bytes], code: int) -> None:
    with pytest.raises(HttpError) as error:
        websocket.accept(Request(method, b"/", [*(_KEY | _ASK | change).items()]), ("v4",))
    assert error.value.status == code


def test_messages_in_any_pieces() -> None:
    text = bytes(range(256)) * 300
    stream = (
        masked(2, b"") + masked(1, b"text") + masked(2, text[:70000], False) + masked(9, b"ping") + masked(0, text[70000:])
        + masked(2, text[:200]) + masked(8, b"\x03\xe8")
    )  # fmt: skip
    want = [(2, b""), (1, b"text"), (9, b"ping"), (2, text), (2, text[:200]), (8, b"\x03\xe8")]
    for size in (1, 7, 1000, len(stream)):
        frames = Frames()
        found = [one for at in range(0, len(stream), size) for one in frames.feed(stream[at : at + size])]
        assert found == want, size


@pytest.mark.parametrize(
    "data, code",
    [
        (websocket.frame(2, b"not masked"), 1002), (b"\xc2\x80\0\0\0\0", 1002), (masked(3, b""), 1002),
        (masked(9, b"x" * 126), 1002), (masked(8, b"", False), 1002), (masked(0, b"x"), 1002),
        (masked(2, b"", False) + masked(2, b""), 1002), (b"\x82\xfe\x00\x05" + bytes(9), 1002),
        (b"\x82\xff" + (1 << 63).to_bytes(8, "big") + bytes(4), 1009), (b"\x82\xff" + (1001).to_bytes(8, "big") + bytes(4), 1002),
        (masked(2, b"x" * 600, False) + masked(0, b"x" * 600), 1009),
    ],
)  # fmt: skip
def test_a_frame_that_is_refused(data: bytes, code: int) -> None:
    """A length is refused before its bytes come: no client makes the server wait for, or keep, more than a message."""
    with pytest.raises(FrameError) as error:
        Frames(1000).feed(data)
    assert error.value.code == code


def mutants(seed: bytes, count: int) -> list[bytes]:
    chance = random.Random(7)
    out = []
    for _ in range(count):
        data = bytearray(seed)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[at] ^= 1 << chance.randrange(8)
            else:
                del data[at : at + chance.randrange(1, 9)]
        out.append(bytes(data))
    return out


def outcome(
    make: Callable[[], Frames | spdy.Frames], pieces: list[bytes], errors: type[Exception]
) -> list[object]:
    """What a parser says of a stream, to its end or its error. Anything but the parser's own error fails the test."""
    parser, out = make(), []
    with contextlib.suppress(errors):
        for piece in pieces:
            for one in parser.feed(piece):
                out.append(
                    one if isinstance(one, tuple) else (one.type, one.stream, one.fin, one.data, one.headers)
                )
    return out


def test_mutants_of_frames_mean_the_same_in_any_pieces() -> None:
    """Neither parser raises anything but its own error, and the pieces of a stream do not change what it means."""
    made = Spdy()
    ws = (
        masked(2, b"one")
        + masked(2, b"t", False)
        + masked(9, b"p")
        + masked(0, b"wo")
        + masked(2, b"x" * 300)
    )
    pairs = made.pair(1, "0", 8080) + (3).to_bytes(4, "big") + b"\0\0\0\x02hi" + made.pair(5, "1", 80)
    for seed, make, errors in ((ws, Frames, FrameError), (pairs, spdy.Frames, spdy.SpdyError)):
        for data in [seed, *mutants(seed, 400)]:
            whole = outcome(make, [data], errors)
            single = outcome(make, [data[at : at + 1] for at in range(len(data))], errors)
            # An error takes the frames of its own piece with it.
            assert single[: len(whole)] == whole, data


def test_a_header_block_is_bounded_whatever_it_is_compressed_to() -> None:
    assert (
        len(spdy.DICTIONARY) == 1423 and zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2
    )  # the DICTID of SPDY/3
    with pytest.raises(spdy.SpdyError, match="longer"):
        spdy.Frames().feed(Spdy().syn(1, streamtype="x" * 10_000_000))
    with pytest.raises(spdy.SpdyError, match="longer"):
        spdy.Frames().feed(b"\x80\x03\x00\x01\x00\xff\xff\xff")
    (found,) = spdy.Frames().feed(Spdy().syn(1, True, streamType="data", port="80"))
    assert (found.stream, found.fin, found.headers) == (1, True, {"streamtype": "data", "port": "80"})


async def _echo(duplex: Duplex) -> None:
    async with WebSocket(duplex, 1 << 16) as ws:
        while (message := await ws.receive()) is not None:
            await ws.send(message)


async def _handler(request: Request) -> Response:
    return Tunnel(b"websocket", websocket.accept(request, ("v5",))[0], _echo)


def test_a_tunnel_of_the_server() -> None:
    """Data before the answer, a ping, a refused handshake, a client that breaks the protocol, both ends."""

    async def test() -> None:
        server = await serve(_handler, address=("127.0.0.1", 0))
        try:
            client = await Client.connect(server.port, "/", "v4, v5")
            assert client.status == 101 and "sec-websocket-protocol: v5" in client.head
            assert "upgrade: websocket" in client.head and "connection: upgrade" in client.head
            client.send(b"x" * 60000)
            client.send(b"p", 9)
            assert sorted([await client.message(), await client.message()]) == [(2, b"x" * 60000), (10, b"p")]
            client.send(b"\x03\xe8", 8)
            assert await client.message() == (8, b"\x03\xe8") and await client.message() == (8, b"")
            assert (await Client.connect(server.port, "/", "v1")).status == 400
            client = await Client.connect(server.port, "/", "v5")
            client.send(b"x" * 70000)
            assert (await client.message())[1][:2] == (1009).to_bytes(2, "big")
            client.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(handshake("/", "v5") + masked(2, b"early"))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(7) == b"\x82\x05early"
            writer.close()
        finally:
            await server.close()
        assert not server._calls

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_connection_whose_id_is_opened_again_ends_with_the_session() -> None:
    """A client resets a pair and opens it again in one message: the end of the old one leaves the new one in the tables."""
    frames = Spdy()
    reset = b"\x80\x03\0\x03\0\0\0\x08\0\0\0\x03\0\0\0\x05"
    messages = [frames.pair(1, "a", 80), reset + frames.pair(5, "a", 80), frames.pair(9, "a", 80)]
    sides: list[tuple[socket.socket, socket.socket]] = []

    class Fake:
        async def receive(self) -> bytes | None:
            await asyncio.sleep(0.02)
            return messages.pop(0) if messages else None

        async def send(self, data: bytes) -> None:
            pass

    def connect(port: int) -> socket.socket:
        sides.append(socket.socketpair())
        sides[-1][0].setblocking(False)
        return sides[-1][0]

    async def test() -> None:
        forwarder = Forwarder(cast(WebSocket, Fake()), connect)
        await forwarder.run()
        assert forwarder.count == 2  # the third has the id of one that is open
        assert [own.fileno() for own, _ in sides] == [-1, -1]

    try:
        asyncio.run(test())
    finally:
        for own, other in sides:
            own.close()
            other.close()
