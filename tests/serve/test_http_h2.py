"""HTTP/2 of the handler server: prior knowledge and ALPN, flow control both ways, hostile frames."""

import json
import socket
import ssl
import time

import h2.errors
import pytest
from helpers.h2peer import H2Peer
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, PingFrame, SettingsFrame

from krun.serve.http.types import Limits

from .test_http_server import certificate, server_context, with_server  # noqa: F401


def connect(port, **config):
    return H2Peer(socket.create_connection(("127.0.0.1", port)), **config)


def test_streams_of_one_connection():
    def test(port, server):
        peer = connect(port)
        streams = [
            peer.request("POST", f"/{n}?q={n}", body=b"x" * n, headers=[(b"x-n", b"%d" % n)])
            for n in range(20)
        ]
        for n, stream in enumerate(streams):
            answer = peer.answer(stream)
            told = json.loads(answer["body"])
            assert answer["status"] == 200 and told["path"] == f"/{n}" and told["body"] == "x" * n
            assert ["host", "a"] in told["headers"] and ["x-n", str(n)] in told["headers"]
        peer.close()

    with_server(test)


def test_large_bodies_pass_the_windows():
    def test(port, server):
        peer = connect(port)
        big = peer.request("GET", "/big")
        assert peer.answer(big)["body"] == b"x" * (1 << 20)
        body = bytes(range(256)) * 2000
        told = json.loads(peer.answer(peer.request("POST", "/", body=body))["body"])
        assert told["body"].encode("latin-1") == body
        assert peer.answer(peer.request("GET", "/stream"))["body"] == b"part 0\npart 1\npart 2\n"

    with_server(test)


def test_a_stream_that_is_not_read_stops_only_itself():
    def test(port, server):
        peer = connect(port)
        big = peer.request("GET", "/big")
        end = time.monotonic() + 0.3
        peer.sock.settimeout(0.1)
        while time.monotonic() < end:
            peer.receive(acknowledge=False)
        assert 0 < len(peer.streams[big]["body"]) <= 65535
        # The connection's window is used up too: only a stream without a body gets through.
        head = peer.request("HEAD", "/big")
        peer.sock.settimeout(2)
        assert peer.answer(head)["status"] == 200 and peer.streams[head]["ended"]
        peer.close()

    with_server(test)


def test_expect_head_and_early_answer():
    def test(port, server):
        peer = connect(port)
        stream = peer.request("POST", "/", headers=[(b"expect", b"100-continue")], end=False)
        while not peer.streams[stream]["interim"]:
            assert peer.receive()
        assert peer.streams[stream]["interim"] == [100]
        peer.conn.send_data(stream, b"late", end_stream=True)
        peer.flush()
        assert json.loads(peer.answer(stream)["body"])["body"] == "late"
        early = peer.request("POST", "/ignore", end=False)
        answer = peer.answer(early)
        assert answer["status"] == 200 and answer["body"] == b"ignored" and answer["ended"]

    with_server(test)


def test_alpn(certificate):  # noqa: F811
    def test(port, server):
        context = ssl.create_default_context(cafile=certificate[0])
        context.set_alpn_protocols(["h2", "http/1.1"])
        with context.wrap_socket(
            socket.create_connection(("127.0.0.1", port)), server_hostname="localhost"
        ) as s:
            assert s.selected_alpn_protocol() == "h2"
            peer = H2Peer(s)
            assert peer.answer(peer.request("GET", "/x"))["status"] == 200

    with_server(test, tls=server_context(certificate))


BAD_FIELDS = [
    ("CR LF in a value", [(b"x", b"a\r\nEvil: 1")]),
    ("NUL in a value", [(b"x", b"a\0b")]),
    ("LF in a name", [(b"x\ny", b"a")]),
    ("blank in a name", [(b"x y", b"a")]),
    ("colon in a name", [(b"x:y", b"a")]),
    ("empty name", [(b"", b"a")]),
    ("upper case", [(b"X-Up", b"a")]),
    ("connection", [(b"connection", b"close")]),
    ("transfer-encoding", [(b"transfer-encoding", b"chunked")]),
    ("te", [(b"te", b"gzip")]),
    ("second host", [(b"host", b"b")]),
    ("two lengths", [(b"content-length", b"0"), (b"content-length", b"1")]),
    ("no number", [(b"content-length", b"-1")]),
    ("a body that does not come", [(b"content-length", b"5")]),
    ("unknown expectation", [(b"expect", b"money")]),
    ("too many", [(b"x-%d" % n, b"") for n in range(300)]),
]


@pytest.mark.parametrize("fields", [f for _, f in BAD_FIELDS], ids=[n for n, _ in BAD_FIELDS])
def test_fields_that_no_message_may_have(fields):
    def test(port, server):
        peer = connect(port, validate_outbound_headers=False, normalize_outbound_headers=False)
        answer = peer.answer(peer.request(headers=fields))
        assert answer["status"] in (400, 417, 431) or answer["reset"] is not None or peer.goaway is not None
        # Another client is served.
        assert connect(port).request() == 1

    with_server(test)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: 1", "a", "", "*", "http://a/", "/" + "x" * 20000])
def test_targets_that_no_message_may_have(path):
    def test(port, server):
        peer = connect(port, validate_outbound_headers=False, normalize_outbound_headers=False)
        answer = peer.answer(peer.request(path=path))
        assert answer["status"] in (400, 414) or answer["reset"] is not None or peer.goaway is not None

    with_server(test)


def flood(peer, frames):
    """Sends frames past the library until the peer hangs up; returns whether it did."""
    try:
        for frame in frames:
            peer.sock.sendall(frame)
        while not peer.closed:
            if not peer.receive():
                break
    except OSError:
        peer.closed = True
    return peer.closed


def test_floods_end_the_connection():
    """CVE-2023-44487 (resets), CVE-2019-9512 (pings), -9515 (settings), -9518 (empty frames)."""

    def resets(peer):
        for _ in range(400):
            stream = peer.request("POST", "/", end=False)
            peer.conn.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
            yield peer.conn.data_to_send()

    def empty(peer):
        stream = peer.request("POST", "/", end=False)
        return [DataFrame(stream).serialize()] * 500

    def test(port, server):
        for make in (
            resets,
            empty,
            lambda peer: [PingFrame(0, b"12345678").serialize()] * 500,
            lambda peer: [SettingsFrame(0).serialize()] * 500,
        ):
            peer = connect(port)
            assert flood(peer, make(peer)), make
            other = connect(port)
            assert other.answer(other.request("GET", "/ignore"))["status"] == 200

    with_server(test, limits=Limits(abuse=100))


def test_frames_outside_of_the_protocol():
    def test(port, server):
        for data in (
            b"\xff" * 100,
            b"\x00\x00\x00\x01\x04\x00\x00\x00\x00",
            HeadersFrame(2, b"\x82", flags=["END_HEADERS"]).serialize(),
            DataFrame(1, b"x").serialize(),
            b"\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x00",
            HeadersFrame(1, b"\xff\xff\xff\xff\xff\xff", flags=["END_HEADERS"]).serialize(),
        ):
            peer = connect(port)
            try:
                peer.sock.sendall(data)
                while peer.receive():
                    pass
            except OSError:
                pass
            other = connect(port)
            assert other.answer(other.request("GET", "/ignore"))["status"] == 200
        # No stream is left open.
        time.sleep(0.1)

    with_server(test)


def test_idle_connection_is_closed_and_draining_tells():
    def test(port, server):
        peer = connect(port)
        while peer.receive():
            pass
        assert peer.closed and peer.goaway == 0

    with_server(test, limits=Limits(idle_time=0.2))


def test_a_client_that_takes_its_leave_gets_what_it_has_asked_for():
    """GOAWAY with a request under way (RFC 9113, section 6.8)."""

    def test(port, server):
        peer = connect(port)
        stream = peer.request("GET", "/big")
        peer.sock.sendall(GoAwayFrame(0, last_stream_id=0).serialize())
        answer = peer.answer(stream)
        assert answer["status"] == 200 and len(answer["body"]) == 1 << 20

    with_server(test)
