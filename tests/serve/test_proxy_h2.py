"""The proxy between HTTP/1.1 and HTTP/2, each way: conversion, gRPC's trailers, windows, hostile fields, resets."""

import json
import socket
import time

import pytest
from helpers.h2peer import H2Peer
from helpers.h2server import H2Server
from helpers.proxyrig import Rig
from hyperframe.frame import GoAwayFrame

from .test_proxy import Held, wait_for


@pytest.fixture
def rig():
    with Rig() as rig:
        yield rig
        assert rig.reports == []


def tell(server, stream, headers, body, trailers):
    """An echo, with a trailer where the request had one."""
    told = {
        "headers": [[n.decode(), v.decode("latin-1")] for n, v in headers],
        "body": body.decode("latin-1"),
        "trailers": [[n.decode(), v.decode()] for n, v in trailers],
        "socket": server.sock.getpeername()[1],
    }
    server.answer(stream, 200, [(b"x-from", b"h2")], json.dumps(told).encode(), [(b"grpc-status", b"0")])


def h2_instance(rig, handle=tell, seen=None, config=None, **revision):
    queue = rig.queue(protocol="h2c", **revision)

    def serve(connection):
        server = H2Server(connection, handle, **(config or {}))
        if seen is not None:
            seen.append(server)
        server.serve()

    rig.script(queue, serve)
    return queue


def client(rig):
    return H2Peer(socket.create_connection(("127.0.0.1", rig.port)))


def test_http1_client_h2c_instance(rig):
    seen = []
    h2_instance(rig, seen=seen)
    status, body = rig.get("/x?y", extra="X-Mine: 1\r\nCookie: a=b\r\n", method="POST", body=b"hello")
    told = json.loads(body)
    fields = dict(told["headers"])
    assert status == 200 and told["body"] == "hello"
    assert (fields[":method"], fields[":path"], fields[":authority"], fields[":scheme"]) == (
        "POST",
        "/x?y",
        "a",
        "http",
    )
    assert (
        fields["x-mine"] == "1"
        and fields["content-length"] == "5"
        and fields["x-forwarded-for"] == "127.0.0.1"
    )
    assert "host" not in fields and "connection" not in fields
    for _ in range(5):
        assert rig.get()[0] == 200
    assert len(seen) == 1


def test_http1_client_gets_trailers_of_h2(rig):
    h2_instance(rig)
    got, _ = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", until=b"grpc-status: 0\r\n\r\n")
    assert got.endswith(b"0\r\ngrpc-status: 0\r\n\r\n") and b"Transfer-Encoding: chunked" in got


def test_grpc_from_end_to_end(rig):
    h2_instance(rig)
    peer = client(rig)
    stream = peer.request(
        "POST",
        "/pkg.Service/Method",
        headers=[(b"te", b"trailers"), (b"content-type", b"application/grpc")],
        body=b"\0\0\0\0\x02hi",
    )
    answer = peer.answer(stream)
    told = json.loads(answer["body"])
    assert answer["trailers"] == [(b"grpc-status", b"0")] and answer["ended"]
    assert ["te", "trailers"] in told["headers"] and told["body"] == "\0\0\0\0\x02hi"


def test_trailers_only_answer(rig):
    h2_instance(rig, lambda server, stream, *rest: server.answer(stream, 200, [(b"grpc-status", b"12")]))
    answer = client_answer(rig)
    assert (b"grpc-status", b"12") in answer["headers"] and answer["ended"] and answer["body"] == b""
    assert rig.get()[0] == 200


def client_answer(rig, **options):
    peer = client(rig)
    return peer.answer(peer.request(**options))


def test_h2_client_http1_instance(rig):
    rig.echo(rig.queue())
    peer = client(rig)
    streams = [
        peer.request("POST", f"/{n}", headers=[(b"cookie", b"a=1"), (b"cookie", b"b=2")], body=b"x" * n)
        for n in range(10)
    ]
    for n, stream in enumerate(streams):
        answer = peer.answer(stream)
        told = json.loads(answer["body"])
        assert answer["status"] == 200 and told["target"] == f"/{n}" and told["body"] == "x" * n
        names = [name.lower() for name, _ in told["headers"]]
        assert ["cookie", "a=1; b=2"] in told["headers"] and names.count("host") == 1
        assert not {n for n, _ in answer["headers"]} & {b"connection", b"transfer-encoding"}


def test_bidirectional_stream(rig):
    """A message goes back before the request has ended."""

    class Stream(H2Server):
        def event(self, event):
            import h2.events

            if isinstance(event, h2.events.RequestReceived):
                self.conn.send_headers(event.stream_id, [(b":status", b"200")])
            elif isinstance(event, h2.events.DataReceived):
                self.conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.conn.send_data(event.stream_id, event.data.upper())
            elif isinstance(event, h2.events.StreamEnded):
                self.conn.send_headers(event.stream_id, [(b"grpc-status", b"0")], end_stream=True)

    rig.script(rig.queue(protocol="h2c"), lambda c: Stream(c, None).serve())
    peer = client(rig)
    stream = peer.request("POST", "/", end=False)
    for word in (b"one", b"two"):
        peer.conn.send_data(stream, word)
        peer.flush()
        while not peer.streams[stream]["body"].endswith(word.upper()):
            assert peer.receive()
    peer.conn.end_stream(stream)
    peer.flush()
    answer = peer.answer(stream)
    assert answer["body"] == b"ONETWO" and answer["trailers"] == [(b"grpc-status", b"0")]


@pytest.mark.parametrize("protocol", ["http1", "h2c"])
def test_large_bodies(rig, protocol):
    if protocol == "h2c":
        h2_instance(rig)
    else:
        rig.echo(rig.queue())
    body = bytes(range(256)) * 8000
    peer = client(rig)
    answer = peer.answer(peer.request("POST", "/", body=body))
    assert json.loads(answer["body"])["body"].encode("latin-1") == body
    assert json.loads(rig.get(method="POST", body=body)[1])["body"].encode("latin-1") == body


BAD = {
    "CR LF in a value": [(b"x", b"a\r\nSet-Cookie: evil=1")],
    "NUL": [(b"x", b"a\0")],
    "LF in a name": [(b"x\ny", b"1")],
    "blank in a name": [(b"x y", b"1")],
    "second status": [(b":status", b"204")],
    "two lengths": [(b"content-length", b"1"), (b"content-length", b"2")],
    "no number": [(b"content-length", b"x")],
    "too many": [(b"x-%d" % n, b"1") for n in range(300)],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_fields_of_an_instance_are_502(rig, name):
    loose = {"validate_outbound_headers": False, "normalize_outbound_headers": False}
    h2_instance(rig, lambda s, stream, *rest: s.answer(stream, 200, BAD[name]), config=loose)
    status, body = rig.get(method="POST", body=b"x")
    assert status == 502 and b"evil" not in body
    assert client_answer(rig)["status"] == 502


def test_connection_fields_of_an_instance_stay(rig):
    loose = {"validate_outbound_headers": False, "normalize_outbound_headers": False}
    bad = [(b"transfer-encoding", b"chunked"), (b"connection", b"close"), (b"x-kept", b"1")]
    h2_instance(rig, lambda s, stream, *rest: s.answer(stream, 200, bad, b"body"), config=loose)
    got, _ = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", wait=0.5)
    # Either the library refuses the message, or the fields are gone.
    assert got.startswith(b"HTTP/1.1 502") or (
        got.count(b"hunked") == 1 and b"x-kept: 1" in got and b"close" not in got
    )


def test_bad_trailers_of_an_instance_never_look_complete(rig):
    loose = {"validate_outbound_headers": False, "normalize_outbound_headers": False}
    h2_instance(
        rig, lambda s, stream, *rest: s.answer(stream, 200, [], b"body", [(b"x", b"a\r\nb")]), config=loose
    )
    got, ended = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", wait=1)
    # The library ends the connection; if the body was on its way already, so does the client's.
    assert got.startswith(b"HTTP/1.1 502") or (ended and b"0\r\n\r\n" not in got), got


@pytest.mark.parametrize("status", [b"099", b"1200", b"19"])
def test_a_status_of_an_instance_that_is_none(rig, status):
    """The library takes every status that begins with 1 for that of an interim answer."""
    loose = {"validate_outbound_headers": False}

    def answer(server, stream, *rest):
        server.conn.send_headers(stream, [(b":status", status)], end_stream=status == b"099")
        if status != b"099":
            server.answer(stream)

    h2_instance(rig, answer, config=loose)
    peer = client(rig)
    got = peer.answer(peer.request())
    assert got["interim"] == [] and got["status"] == (502 if status == b"099" else 200)


def test_fields_of_a_head_are_no_trailers(rig):
    """RFC 9110, section 6.5.1. An HTTP/1.1 message with them is refused (test_http_server.py)."""
    seen = []
    bad = [(b"host", b"b"), (b"authorization", b"x"), (b"content-type", b"x"), (b"te", b"trailers")]

    def answer(server, stream, headers, body, trailers):
        seen.append(trailers)
        server.answer(stream, 200, [], b"body", [*bad, (b"x-kept", b"1")])

    loose = {"validate_outbound_headers": False, "validate_inbound_headers": False}
    h2_instance(rig, answer, config=loose)
    peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)), validate_outbound_headers=False)
    stream = peer.request("POST", end=False)
    peer.conn.send_data(stream, b"x")
    peer.conn.send_headers(stream, [*bad, (b"x-kept", b"1")], end_stream=True)
    peer.flush()
    got = peer.answer(stream)
    assert got["trailers"] == [(b"x-kept", b"1")] and seen == [[(b"x-kept", b"1")]]


def test_an_instance_that_speaks_http1_on_an_h2c_port(rig):
    queue = rig.queue(protocol="h2c")
    rig.script(queue, lambda c: (c.recv(4096), c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")))
    assert rig.get()[0] == 502 and queue.in_flight == 0


def test_a_client_that_resets_frees_its_slot(rig):
    held = Held()
    queue = rig.queue(concurrency=1)
    rig.script(queue, held.serve)
    peer = client(rig)
    first, second = peer.request("GET", "/1"), peer.request("GET", "/2")
    wait_for(lambda: held.running == 1 and queue.queued == 1)
    peer.conn.reset_stream(second)
    peer.flush()
    wait_for(lambda: queue.queued == 0)
    peer.conn.reset_stream(first)
    peer.flush()
    wait_for(lambda: queue.in_flight == 0)


def test_a_client_that_goes_resets_the_instances_stream(rig):
    seen = []
    queue = h2_instance(rig, lambda *rest: None, seen)
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: seen and seen[0].requests)
    wait_for(lambda: seen[0].resets == [1])
    wait_for(lambda: queue.in_flight == 0)


def test_timeout_before_and_after_the_first_byte(rig):
    def slow(server, stream, headers, body, trailers):
        if dict(headers)[b":path"] == b"/stream":
            server.conn.send_headers(stream, [(b":status", b"200")])
            server.conn.send_data(stream, b"begin")
            server.flush()

    h2_instance(rig, slow, timeout=0.3)
    answer = client_answer(rig, path="/")
    assert answer["status"] == 504 and answer["body"] == b"request timeout"
    answer = client_answer(rig, path="/stream")
    assert answer["status"] == 200 and answer["body"] == b"beginrequest timeout" and answer["ended"]


def test_timeout_that_aborts_resets(rig):
    def stream_only(server, stream, *rest):
        server.conn.send_headers(stream, [(b":status", b"200")])
        server.flush()

    h2_instance(rig, stream_only, timeout=0.3, abort_on_timeout=True)
    answer = client_answer(rig)
    assert answer["reset"] is not None and not answer["ended"]


def test_upgrade_does_not_reach_an_h2c_instance(rig):
    h2_instance(rig)
    got, _ = rig.raw(
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", until=b"0\r\n\r\n"
    )
    assert got.startswith(b"HTTP/1.1 200") and b'"upgrade"' not in got


def test_an_instance_that_dies_under_streams(rig):
    queue = h2_instance(rig, lambda server, *rest: server.sock.close())
    peer = client(rig)
    streams = [peer.request() for _ in range(5)]
    assert all(peer.answer(s)["status"] == 502 for s in streams)
    wait_for(lambda: queue.in_flight == 0)


def test_more_requests_than_an_instance_takes_streams(rig):
    """MAX_CONCURRENT_STREAMS of the instance is 2: further connections carry the rest."""
    import h2.settings

    seen = []

    def serve(connection):
        server = H2Server.__new__(H2Server)
        H2Server.__init__(server, connection, lambda s, stream, *rest: (time.sleep(0.05), s.answer(stream)))
        server.conn.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 2})
        server.flush()
        seen.append(server)
        server.serve()

    rig.script(rig.queue(protocol="h2c"), serve)
    assert rig.get()[0] == 200
    peer = client(rig)
    streams = [peer.request() for _ in range(12)]
    assert [peer.answer(s)["status"] for s in streams] == [200] * 12


def test_http1_clients_are_told_interim_answers(rig):
    def early(server, stream, *rest):
        server.conn.send_headers(stream, [(b":status", b"103"), (b"link", b"</x>")])
        server.answer(stream)

    h2_instance(rig, early)
    got, _ = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", wait=0.5)
    assert got.startswith(b"HTTP/1.1 103") and b"link: </x>" in got and b"HTTP/1.1 200" in got


def test_an_instance_that_goes_away_in_order(rig):
    """GOAWAY (a gRPC server's MaxConnectionAge): the requests that it has are still answered, the next one goes elsewhere."""
    connections = []

    def serve(connection):
        connections.append(connection)

        def answer(server, stream, *rest):
            connection.sendall(GoAwayFrame(0, last_stream_id=(1 << 31) - 1).serialize())
            server.answer(stream, body=b"the last one")

        H2Server(connection, answer).serve()

    rig.script(rig.queue(protocol="h2c"), serve)
    for count in (1, 2):
        peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)))
        answer = peer.answer(peer.request())
        assert (answer["status"], answer["body"]) == (200, b"the last one") and len(connections) == count
        peer.close()
