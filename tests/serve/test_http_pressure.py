"""Peers that do not read: what they make the server and the proxy hold, and until when."""

import asyncio
import socket
import threading
import time
from unittest.mock import Mock

from h2.settings import SettingCodes
from helpers.h2peer import H2Peer
from helpers.h2server import H2Server
from helpers.proxyrig import Rig, head_of
from hpack import Encoder
from hyperframe.frame import HeadersFrame, SettingsFrame

from krun.serve.http.types import Limits
from krun.serve.proxy.up1 import Keeper, Up1

from .test_http_server import with_server
from .test_proxy import OK, wait_for


def slow(port):
    """A connection that takes little."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    return sock


def the_connection(server):
    (found,) = server.front.endpoint.connections
    return found


# ------------------------------------------------------------------------------------------------ clients


def never_reads(port, server, count=1500):
    """A client that asks for answers without a body and reads nothing. Returns it, the most that waited for it, the last stream taken."""
    sock = slow(port)
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize())
    wait_for(lambda: [c for c in server.front.endpoint.connections if hasattr(c, "conn")])
    connection = the_connection(server)
    fields = {b":method": b"HEAD", b":scheme": b"http", b":authority": b"a", b":path": b"/fields"}
    block = Encoder().encode([(name, value, True) for name, value in fields.items()])
    most, last = 0, -1
    for first in range(1, 2 * count, 10):
        batch = range(first, first + 10, 2)
        sock.sendall(
            b"".join(HeadersFrame(n, block, flags=["END_HEADERS", "END_STREAM"]).serialize() for n in batch)
        )
        end = time.monotonic() + 1
        while connection.conn.highest_inbound_stream_id < batch[-1] or len(connection.streams) > 200:
            if time.monotonic() > end:
                return sock, most, last
            time.sleep(0.001)
        most = max(most, connection.transport.get_write_buffer_size())
        last = batch[-1]
    return sock, most, last


def test_answers_without_a_body_to_a_client_that_never_reads_have_a_bound():
    def test(port, server):
        sock, most, last = never_reads(port, server)
        assert most < 4 << 20 and 0 < last < 2990
        # It reads at last: the rest of what it has sent is served.
        sock.settimeout(5)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while the_connection(server).conn.highest_inbound_stream_id < last + 10:
            assert sock.recv(1 << 20)
        sock.close()

    with_server(test)


def test_pipelined_requests_of_a_client_that_never_reads_have_a_time_out():
    def test(port, server):
        sock = slow(port)
        sock.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
        wait_for(lambda: [c for c in server.front.endpoint.connections if getattr(c, "write_paused", False)])
        wait_for(lambda: not server.front.endpoint.connections)
        sock.close()

    with_server(test, limits=Limits(idle_time=0.5))


def test_a_tunnel_begins_with_what_came_ahead_of_it():
    """More than is read ahead of an answer: the reading goes on in the tunnel."""
    asked, sent, got = threading.Event(), threading.Event(), []

    def serve(connection):
        head_of(connection)
        asked.set()
        assert sent.wait(5)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        while data := connection.recv(65536):
            got.append(data)

    with Rig(limits=Limits(ahead=1000)) as rig:
        rig.script(rig.queue(), serve)
        client = socket.create_connection(("127.0.0.1", rig.port))
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        assert asked.wait(5)
        client.sendall(b"a" * 5000)
        wait_for(
            lambda: [c for c in rig.ingress._fronts[0].endpoint.connections if getattr(c, "_paused", False)]
        )
        sent.set()
        client.sendall(b"b" * 5000)
        wait_for(lambda: b"".join(got) == b"a" * 5000 + b"b" * 5000)
        client.close()


def test_a_client_that_stopped_reading_before_its_instance_came():
    """HTTP/2: the streams of a connection share its socket, and a new one is told as the others are."""
    taken = [0, 0]

    def endless(index):
        def serve(connection):
            head_of(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
            while taken[index] < 24 << 20:
                taken[index] += connection.send(b"x" * 65536)

        return serve

    with Rig() as rig:
        rig.script(rig.queue("one", "one"), endless(0))
        other = rig.queue("two", "two")
        peer = H2Peer(slow(rig.port))
        peer.conn.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: (1 << 31) - 1})
        peer.conn.increment_flow_control_window((1 << 31) - 1 - 65535)
        peer.request(host="one")
        wait_for(
            lambda: [
                c for c in rig.ingress._fronts[0].endpoint.connections if getattr(c, "write_paused", False)
            ]
        )
        peer.request(host="two")
        wait_for(lambda: other.queued)
        rig.script(other, endless(1))
        wait_for(lambda: taken[1])
        before = 0
        while taken[1] != before:
            before = taken[1]
            time.sleep(0.3)
        assert taken[1] < 20 << 20
        peer.close()


# ---------------------------------------------------------------------------------------------- instances


def test_a_body_that_waited_for_its_instance_is_held_back_by_it():
    """The instance permits no byte of it: what has been read before its coming is written at once, and no more is read."""

    def serve(connection):
        server = H2Server(connection, lambda *request: None)
        server.conn.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        server.flush()
        server.serve()

    with Rig() as rig:
        queue = rig.queue(protocol="h2c")
        peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)), timeout=0.5)
        stream = peer.request("POST", end=False)
        sent, added = 0, False
        while sent < 8 << 20:
            size = min(peer.conn.local_flow_control_window(stream), peer.conn.max_outbound_frame_size)
            if size:
                peer.conn.send_data(stream, b"x" * size)
                peer.flush()
                sent += size
            elif not peer.receive():
                if added:
                    break
                rig.script(queue, serve)
                added = True
        assert added and sent < 4 << 20
        peer.close()


def test_a_connection_that_is_full_serves_no_further_request():
    """The instance has answered and does not read: the next request's body would not be held back."""
    kept = []

    class Kept(Keeper):
        def give_back(self, connection):
            kept.append(connection)

        def forget(self, connection):
            pass

    transport = Mock(spec=asyncio.Transport)
    transport.is_closing.return_value = False
    transport.get_write_buffer_size.return_value = 0
    for full in (False, True):
        up = Up1(Kept(), Limits(), Mock())
        up.connection_made(transport)
        up.send(Mock(), b"POST", b"POST / HTTP/1.1\r\n\r\n", 2)
        up.write(b"ab")
        if full:
            up.pause_writing()
        up.finish([])
        up.data_received(OK)
    assert len(kept) == 1
