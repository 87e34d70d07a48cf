"""What an HTTP/2 peer can make the server keep: a client of the server, an instance of the proxy."""

import asyncio
import socket
import threading
import time

import pytest
from h2.settings import SettingCodes
from helpers.h2peer import H2Peer
from helpers.h2server import H2Server
from helpers.proxyrig import Rig
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from krun.errors import KrunError
from krun.serve.http.h2stream import H2Incoming
from krun.serve.http.types import Limits
from krun.serve.run import grpc_health

from .test_http_h2 import connect, flood
from .test_http_server import with_server
from .test_proxy import wait_for


def the_connection(server):
    (found,) = server.front.endpoint.connections
    return found


def test_a_client_does_not_size_the_encoders_table():
    def test(port, server):
        peer = connect(port)
        for size in (1 << 30, 0, 1 << 31):
            peer.conn.update_settings({SettingCodes.HEADER_TABLE_SIZE: size})
        peer.flush()
        for _ in range(3):
            assert peer.answer(peer.request("GET", "/ignore"))["body"] == b"ignored"
        assert the_connection(server).conn.encoder.header_table_size <= 4096
        peer.close()

    with_server(test)


def test_a_header_block_without_end():
    """CVE-2024-27316: CONTINUATION frames, with fields and empty."""

    def test(port, server):
        for part in (b"", b"\x00\x01a\x7f\x80\x7f" + b"x" * 200):
            peer = connect(port)
            frames = [HeadersFrame(1, b"\x82").serialize(), *[ContinuationFrame(1, part).serialize()] * 200]
            assert flood(peer, frames)
        other = connect(port)
        assert other.answer(other.request("GET", "/ignore"))["status"] == 200

    with_server(test)


def test_a_flood_of_window_updates_costs_no_turn_each(monkeypatch):
    turns = []
    pump = H2Incoming.pump
    monkeypatch.setattr(H2Incoming, "pump", lambda self: (turns.append(1), pump(self)))

    def test(port, server):
        peer = connect(port)
        for _ in range(20):
            peer.request("GET", "/big")
        while peer.receive(acknowledge=False) and sum(len(s["body"]) for s in peer.streams.values()) < 65535:
            pass
        turns.clear()
        for _ in range(1000):
            peer.conn.increment_flow_control_window(256)
        peer.flush()
        while sum(len(s["body"]) for s in peer.streams.values()) < 65535 + 256 * 1000:
            assert peer.receive(acknowledge=False)
        assert len(turns) < 20 * 200
        peer.close()

    with_server(test)


def test_a_ping_for_each_part_of_a_response_is_no_abuse():
    """Clients measure the path while they read (grpc-go: internal/transport/bdp_estimator.go)."""

    def test(port, server):
        peer = connect(port)
        stream = peer.request("GET", "/big")
        while not peer.streams[stream]["ended"]:
            peer.conn.ping(b"measured")
            assert peer.receive(), peer.goaway
        assert len(peer.streams[stream]["body"]) == 1 << 20

    with_server(test, limits=Limits(abuse=10))


def test_a_response_that_nobody_takes_has_a_time_out():
    """CVE-2019-9517: the response is complete, its bytes wait for the client's window."""

    def test(port, server):
        peer = connect(port)
        stream = peer.request("GET", "/big")
        while peer.streams[stream]["reset"] is None and not peer.closed:
            assert peer.receive(acknowledge=False)
        peer.close()

    with_server(test, limits=Limits(idle_time=0.3))


def test_a_response_that_is_taken_slowly_has_its_time():
    def test(port, server):
        peer = connect(port)
        stream = peer.request("GET", "/big")
        peer.sock.settimeout(3)
        for _ in range(5):
            while peer.conn.inbound_flow_control_window:
                assert peer.receive(acknowledge=False)
            time.sleep(0.15)
            peer.conn.acknowledge_received_data(65535, stream)
            peer.flush()
        assert peer.answer(stream)["body"] == b"x" * (1 << 20)

    with_server(test, limits=Limits(idle_time=0.6))


def test_an_instance_whose_frames_want_answers_reads_them():
    """CVE-2019-9512 from the instance's side: the answers must not pile up."""
    sent, looking = [], threading.Event()

    def serve(connection):
        server = H2Server(connection, lambda *request: None)
        server.conn.receive_data(connection.recv(65536))
        server.flush()
        connection.settimeout(1)
        block = PingFrame(0, b"12345678").serialize() * 5000
        looking.wait(20)
        while len(sent) < 300:
            connection.sendall(block)
            sent.append(len(block))

    with Rig() as rig:
        queue = rig.queue(protocol="h2c")
        backend = rig.script(queue, serve)
        client = socket.create_connection(("127.0.0.1", rig.port))
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: backend.pool is not None and backend.pool._links)
        link = backend.pool._links[0]
        looking.set()
        most = 0
        end = time.monotonic() + 8
        while time.monotonic() < end and len(sent) < 300 and backend.pool.count:
            most = max(most, rig.call(link.transport.get_write_buffer_size))
            time.sleep(0.02)
        assert most < 4 << 20 and len(sent) < 300
        client.close()


#: Frames that bring nothing. Of most the library makes no event.
COSTLY = {
    "settings": SettingsFrame(0).serialize(),
    "settings-answer": SettingsFrame(0, flags=["ACK"]).serialize(),
    "ping": PingFrame(0, b"12345678").serialize(),
    "ping-answer": PingFrame(0, b"12345678", flags=["ACK"]).serialize(),
    "priority": PriorityFrame(99, depends_on=1).serialize(),
    "goaway": GoAwayFrame(0, last_stream_id=1).serialize(),
    "unknown": b"\0\0\0\x55\0\0\0\0\0",
}


@pytest.mark.parametrize("costly", COSTLY.values(), ids=COSTLY)
def test_a_client_that_sends_frames_without_end_is_let_go(costly):
    """All connections wait while the frames of one are handled: 64 KiB of them took up to 0.2 s."""
    refused = []

    def test(port, server):
        server.front.endpoint.on_refused = lambda status, text: refused.append(status)
        peer = connect(port)
        peer.answer(peer.request("GET", "/ignore"))
        assert flood(peer, [costly * 50] * 4)
        # One GOAWAY is the end of a connection without a request, if it is read alone.
        assert refused == [429] or (not refused and costly == COSTLY["goaway"])

    with_server(test, limits=Limits(abuse=100))


@pytest.mark.parametrize("costly", COSTLY.values(), ids=COSTLY)
def test_an_instance_that_sends_frames_without_end_is_let_go(costly):
    """With one request it kept those of all others waiting, for as long as the client of that request liked."""
    ended = threading.Event()

    def serve(connection):
        server = H2Server(connection, lambda *request: None)
        server.conn.receive_data(connection.recv(65536))
        server.flush()
        try:
            for _ in range(4):
                connection.sendall(costly * 50)
            while connection.recv(65536):
                pass
        except OSError:
            pass
        ended.set()

    with Rig(limits=Limits(abuse=100)) as rig:
        rig.script(rig.queue(protocol="h2c"), serve)
        peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)))
        assert peer.answer(peer.request())["status"] == 502
        assert ended.wait(20)


def test_wider_windows_without_end_have_a_bound():
    def test(port, server):
        peer = connect(port)
        peer.answer(peer.request("GET", "/ignore"))
        assert flood(peer, [WindowUpdateFrame(0, window_increment=256).serialize() * 100] * 20)

    with_server(test, limits=Limits(abuse=100))


@pytest.mark.parametrize("costly", COSTLY.values(), ids=COSTLY)
def test_a_probe_does_not_read_frames_without_end(costly):
    """Its time is the manifest's to choose, and the server's loop reads it, too."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.sendall(SettingsFrame(0).serialize() + costly * 200)
    with ours, theirs, pytest.raises(KrunError, match="too many"):
        asyncio.run(asyncio.wait_for(grpc_health.check(ours, ""), 20))


def test_interim_responses_of_an_h2c_instance_have_a_bound():
    def serve(connection):
        def answer(server, stream, *rest):
            for _ in range(40):
                server.conn.send_headers(stream, [(b":status", b"103")])
            server.answer(stream, 200)

        H2Server(connection, answer).serve()

    with Rig() as rig:
        rig.script(rig.queue(protocol="h2c"), serve)
        peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)))
        answer = peer.answer(peer.request())
        assert answer["status"] == 502 and len(answer["interim"]) == 16


def test_a_probe_lets_others_run_between_its_reads():
    """asyncio's sock_recv does not wait while there is something to read."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    head = HeadersFrame(1, Encoder().encode([(":status", "200")]), flags=["END_HEADERS"])
    theirs.sendall(SettingsFrame(0).serialize() + head.serialize() + DataFrame(1, b"x").serialize() * 10000)
    theirs.shutdown(socket.SHUT_WR)
    turns = 0

    async def main():
        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        with pytest.raises(KrunError, match="closed the connection"):
            await grpc_health.check(ours, "")
        task.cancel()

    with ours, theirs:
        asyncio.run(main())
    assert turns >= 100000 // 16384
