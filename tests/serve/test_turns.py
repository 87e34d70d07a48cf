"""http.turns: a read full of tiny frames is handled in turns, in its order, and nothing is read meanwhile or while the connection is held."""

import asyncio
import socket

import pytest
from helpers.h2peer import H2Peer
from helpers.h2server import H2Server
from helpers.proxyrig import Rig
from hyperframe.frame import DataFrame

from krun.serve.http import turns
from krun.serve.http.turns import Turns

from .test_http_h2 import connect
from .test_http_server import with_server

PIECE, FRAMES = turns._PIECE, turns._FRAMES


class Transport:
    """Keeps whether it is read from."""

    reading = True
    closing = False

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.closing


class Taker:
    """A connection whose frames are `size` bytes each."""

    def __init__(self, size):
        self.size = size
        self.parts = []
        self.ends = []
        self.transport = Transport()
        self.turns = Turns(self.transport, self.take, lambda: self.ends.append(len(self.parts)))

    def take(self, data):
        self.parts.append(data)
        return len(data) // self.size

    def got(self):
        return b"".join(self.parts)


DATA = bytes(range(256)) * 256  # 64 KiB


def test_large_frames_are_handled_at_once():
    async def main():
        taker = Taker(4096)
        taker.turns.feed(DATA)
        assert taker.got() == DATA and taker.transport.reading and taker.ends == [len(taker.parts)]

    asyncio.run(main())


def test_tiny_frames_are_handled_in_turns():
    async def main():
        taker = Taker(10)
        taker.turns.feed(DATA)
        for turn in range(1, len(DATA) // PIECE):
            assert len(taker.got()) == turn * PIECE and not taker.transport.reading
            assert len(taker.ends) == turn
            if turn == 2:
                taker.turns.feed(b"behind")
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert taker.got() == DATA + b"behind" and taker.transport.reading

    asyncio.run(main())


def test_a_held_connection_goes_on_when_it_is_released():
    async def main():
        taker = Taker(10)
        taker.turns.feed(DATA)
        taker.turns.hold()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(taker.got()) == PIECE and not taker.transport.reading
        taker.turns.release()
        for _ in range(20):
            await asyncio.sleep(0)
        assert taker.got() == DATA and taker.transport.reading
        taker.turns.release()  # nobody holds it

    asyncio.run(main())


def test_a_connection_that_closes_handles_no_more():
    async def main():
        taker = Taker(10)
        taker.turns.feed(DATA)
        taker.transport.closing = True
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(taker.got()) == PIECE

    asyncio.run(main())


@pytest.fixture
def most(monkeypatch):
    """The largest number of frames of one turn, of both sides."""
    found = [0]
    turn = Turns._turn

    def counted(self, data):
        take, frames = self._take, []
        self._take = lambda piece: frames.append(take(piece)) or frames[-1]
        try:
            turn(self, data)
        finally:
            self._take = take
        found[0] = max(found[0], sum(frames))

    monkeypatch.setattr(Turns, "_turn", counted)
    return found


#: A turn ends behind the piece that has the last of FRAMES.
BOUND = FRAMES + PIECE // 10 + 1


def test_a_client_of_tiny_frames(most):
    def test(port, server):
        peer = connect(port)
        stream = peer.request("POST", "/echo", end=False)
        peer.sock.sendall(DataFrame(stream, b"x").serialize() * 30000)
        peer.sock.sendall(DataFrame(stream, b"", flags=["END_STREAM"]).serialize())
        assert peer.answer(stream)["body"].count(b"x") >= 30000
        peer.close()

    with_server(test)
    assert FRAMES < most[0] <= BOUND


def test_an_instance_of_tiny_frames(most):
    def serve(connection):
        def answer(server, stream, *rest):
            server.conn.send_headers(stream, [(":status", "200")])
            server.flush()
            connection.sendall(DataFrame(stream, b"x").serialize() * 30000)
            connection.sendall(DataFrame(stream, b"", flags=["END_STREAM"]).serialize())

        H2Server(connection, answer).serve()

    with Rig() as rig:
        rig.script(rig.queue(protocol="h2c"), serve)
        peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)))
        assert peer.answer(peer.request())["body"] == b"x" * 30000
        peer.close()
    assert FRAMES < most[0] <= BOUND
