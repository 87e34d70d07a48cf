"""What one instance and one client can hold of the server: connections, descriptors, memory."""

import socket
import ssl
import subprocess
import sys

import h2.settings
from helpers.h2peer import H2Peer
from helpers.h2server import H2Server
from helpers.proxyrig import Rig, head_of
from helpers.servefakes import Waiter

from krun.serve.http.endpoint import client_of
from krun.serve.http.types import Limits
from krun.serve.proxy import pool
from krun.serve.proxy.queue import RevisionConfig, RevisionQueue

from .test_http_server import certificate, server_context, with_server  # noqa: F401
from .test_proxy import OK, Held, wait_for

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def opened(rig, count, message=GET):
    """Connections that have sent `message`."""
    found = [socket.create_connection(("127.0.0.1", rig.port)) for _ in range(count)]
    for one in found:
        one.sendall(message)
    return found


def ended(sockets):
    for one in sockets:
        one.close()


# ---------------------------------------------------------------------------------------------- one instance


def test_an_instance_that_never_answers_has_a_bound():
    with Rig(limits=Limits(upstream=3)) as rig:
        held, queue = Held(), rig.queue()
        backend = rig.script(queue, held.serve)
        waiting = opened(rig, 3)
        wait_for(lambda: held.running == 3)
        got, _ = rig.raw(GET, until=b"this instance\n")
        assert got.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in got
        text = rig.call(lambda: rig.ingress.metrics.text([queue]))
        assert (
            "\nkrun_revision_connections{" in text and '"} 3\n' in text.split("krun_revision_connections{")[1]
        )
        assert "krun_revision_connections_refused_total{" in text
        # Another instance takes what this one has no room for.
        rig.echo(queue)
        assert rig.get()[0] == 200
        ended(waiting)
        wait_for(lambda: backend.pool.count == 0)


def test_all_instances_together_have_a_bound():
    with Rig() as rig:
        rig.ingress.room.total = 2
        held = Held()
        rig.script(rig.queue(), held.serve)
        other = rig.queue("other", "b")
        rig.echo(other)
        assert rig.get(host="b")[0] == 200
        waiting = opened(rig, 1)
        wait_for(lambda: held.running == 1)
        # The idle connection of the other one gives its place.
        waiting += opened(rig, 1)
        wait_for(lambda: held.running == 2)
        assert rig.get(host="b")[0] == 503
        ended(waiting)
        wait_for(lambda: rig.ingress.room.count == 0)
        assert rig.get(host="b")[0] == 200


def test_an_idle_connection_that_is_no_good_gives_its_place(monkeypatch):
    monkeypatch.setattr(pool, "_JUST_USED", -1.0)
    with Rig(limits=Limits(upstream=1)) as rig:

        def serve(connection):
            while head_of(connection):
                connection.sendall(OK)

        rig.script(rig.queue(), serve)
        assert rig.get() == (200, b"ok")
        assert rig.get(method="DELETE") == (200, b"ok")


def test_a_failed_connect_gives_its_place_back():
    with Rig(limits=Limits(upstream=1)) as rig:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = closed.getsockname()
        rig.add(rig.queue(), address)
        assert [rig.get()[0] for _ in range(3)] == [502] * 3
        assert rig.ingress.room.count == 0


def test_an_h2c_instance_that_permits_no_stream_holds_no_descriptors():
    with Rig() as rig:

        def serve(connection):
            server = H2Server(connection, lambda server, stream, *rest: server.answer(stream, 200))
            server.conn.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 0})
            server.flush()
            server.serve()

        rig.script(rig.queue(protocol="h2c"), serve)
        for _ in range(6):
            rig.get()
        wait_for(lambda: rig.ingress.room.count <= 2)


def test_idle_h2c_connections_end(monkeypatch):
    monkeypatch.setattr("krun.serve.proxy.up2._IDLE_TIME", 0.1)
    with Rig() as rig:

        def serve(connection):
            H2Server(connection, lambda server, stream, *rest: server.answer(stream, 200)).serve()

        rig.script(rig.queue(protocol="h2c"), serve)
        assert rig.get()[0] == 200
        wait_for(lambda: rig.ingress.room.count == 0)
        assert rig.get()[0] == 200


# ------------------------------------------------------------------------------------------------ one client


def test_connections_of_one_address_have_a_bound():
    with Rig(limits=Limits(client=3)) as rig:
        rig.echo(rig.queue())
        held = opened(rig, 2) + [H2Peer(socket.create_connection(("127.0.0.1", rig.port))).sock]
        (front, _) = rig.ingress._fronts
        wait_for(lambda: len(front.endpoint.connections) == 3)
        got, end = rig.raw(GET, until=b"address\n")
        assert got.startswith(b"HTTP/1.1 429 ") and b"Retry-After: 1\r\n" in got
        assert rig.ingress.metrics.refusals == {429: 1}
        # Another address is another client.
        with socket.create_connection(("127.0.0.1", rig.port), source_address=("127.0.0.2", 0)) as other:
            other.sendall(GET)
            assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        ended(held)
        wait_for(lambda: not front.endpoint.connections)
        assert not front.endpoint._clients and rig.get()[0] == 200


def test_places_in_a_full_queue_are_shared_between_clients():
    """One client with HTTP/2 took all the places of a revision without an instance."""
    queue = RevisionQueue(RevisionConfig(("default", "rev"), queue=10), 0.0)

    def asked(client, count):
        waiters = [Waiter(client) for _ in range(count)]
        for waiter in waiters:
            queue.enter(waiter, 0.0)
        return waiters

    def refused(waiters):
        return [waiter.refused is not None for waiter in waiters]

    # Alone it has them all.
    many = asked("a", 11)
    assert refused(many) == [False] * 10 + [True]
    few = asked("b", 7)
    assert refused(few) == [False] * 5 + [True] * 2
    # The newest ones have gone, and the order is that of arrival.
    assert refused(many) == [False] * 5 + [True] * 6
    assert list(queue.waiting.values()) == many[:5] + few[:5] and queue.queued == 10
    assert refused(asked("c", 1)) == [False] and refused(asked("a", 1)) == [True]
    for waiter in list(queue.waiting.values()):
        queue.leave(waiter, 0.0)
    assert queue._places == {}
    asked("a", 3)
    queue.fail("gone", 0.0)
    assert queue._places == {} and not queue.waiting


def test_an_instance_has_an_eighth_of_the_instances_front():
    with Rig(limits=Limits(connections=8)) as rig:
        rig.call(rig.ingress.listen_inside, inside := socket.create_server(("127.0.0.1", 0)))
        port = inside.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            got, _ = rig.raw(GET, port=port, until=b"address\n")
        assert got.startswith(b"HTTP/1.1 429 ")


def test_a_client_of_ipv6_is_its_network():
    assert client_of(("2001:db8::1", 1, 0, 0)) == client_of(("2001:db8::ffff:1", 1, 0, 0))
    assert client_of(("2001:db8::1", 1, 0, 0)) != client_of(("2001:db8:0:1::1", 1, 0, 0))
    assert client_of(("fe80::1%eth0", 1, 0, 2)) == client_of(("fe80::2", 1, 0, 0))
    assert client_of(("::ffff:10.0.0.1", 1, 0, 0)) != client_of(("::ffff:10.0.0.2", 1, 0, 0))
    assert client_of("unix") == ""


def test_connections_count_before_their_tls_handshake(certificate, caplog):  # noqa: F811
    def test(port, server):
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        wait_for(lambda: len(server.front.endpoint.connections) == 2)
        with socket.create_connection(("127.0.0.1", port)) as one:
            assert one.recv(1) == b""
        ended(held)
        wait_for(lambda: not server.front.endpoint.connections)
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(GET)
            plain.recv(100)
            wait_for(lambda: not server.front.endpoint.connections)
        context = ssl.create_default_context(cafile=certificate[0])
        for _ in range(3):
            with context.wrap_socket(
                socket.create_connection(("127.0.0.1", port)), server_hostname="localhost"
            ) as s:
                s.sendall(b"GET /ignore HTTP/1.1\r\nHost: a\r\n\r\n")
                assert s.recv(12) == b"HTTP/1.1 200"
        wait_for(lambda: not server.front.endpoint.connections)

    with_server(test, tls=server_context(certificate), limits=Limits(connections=2))
    assert not caplog.records


def test_descriptors_are_shared_out():
    limits = Limits.within(1024)
    assert (limits.connections, limits.client) == (128, 64)
    assert Limits.within(1 << 20) == Limits()
    assert Limits.within(1 << 20, 8192).client == 8192


def test_the_worker_keeps_the_limit_that_the_server_was_given():
    code = (
        "import resource as r; from krun.serve import descriptors as d; hard = r.getrlimit(r.RLIMIT_NOFILE)[1];"
        "r.setrlimit(r.RLIMIT_NOFILE, (300, hard)); given = d.given(); n = d.widen();"
        "assert n == min(hard, 1 << 20) == d.widen(), n;"
        "d.restore(list(given)); assert d.given() == (300, hard) == r.getrlimit(r.RLIMIT_NOFILE)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------------------------------------------- memory


def post(size):
    return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size


def test_bodies_that_wait_have_a_bound():
    with Rig(limits=Limits(memory=400_000)) as rig:
        queue = rig.queue()
        held = opened(rig, 3, post(50_000))
        wait_for(lambda: rig.ingress.memory.held > 150_000)
        got, _ = rig.raw(post(50_000), until=b"for them\n")
        assert got.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in got
        assert queue.queued == 3 and rig.ingress.metrics.refusals == {503: 1}
        # Another client has its own half.
        with socket.create_connection(("127.0.0.1", rig.port), source_address=("127.0.0.2", 0)) as other:
            other.sendall(post(50_000))
            wait_for(lambda: rig.ingress.memory.held > 200_000)
            rig.echo(queue)
            assert other.recv(12) == b"HTTP/1.1 200"
        for one in held:
            assert one.recv(12) == b"HTTP/1.1 200"
        ended(held)
        wait_for(lambda: not rig.ingress.memory.held)
        assert not rig.ingress.memory._clients


def test_a_small_read_bounds_what_waits_of_one_connection():
    with Rig() as rig:
        queue = rig.queue()
        (one,) = opened(rig, 1, post(50))
        wait_for(lambda: queue.queued == 1)
        two = socket.create_connection(("127.0.0.1", rig.port))
        two.setblocking(False)
        two.send(post(1 << 20))
        wait_for(lambda: queue.queued == 2)
        assert rig.ingress.memory.held < 100_000
        ended((one, two))


def test_heads_have_a_bound():
    with Rig(limits=Limits(memory=400_000)) as rig:
        queue = rig.queue()
        peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)))
        streams = [peer.request(headers=[(b"x", b"%d" % n + b"x" * 8000)]) for n in range(20)]
        while peer.streams[streams[-1]]["status"] is None:
            assert peer.receive()
        assert 5 < queue.queued < 12 and peer.streams[streams[-1]]["status"] == 503
        peer.close()
        wait_for(lambda: not rig.ingress.memory.held)


def test_responses_that_no_stream_takes_have_a_bound():
    """CVE-2019-9517."""

    def serve(connection):
        while head_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60_000)

    with Rig(limits=Limits(memory=1_000_000)) as rig:
        rig.script(rig.queue(), serve)
        peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)))
        streams = [peer.request() for _ in range(20)]
        while not any(peer.streams[stream]["reset"] for stream in streams):
            assert peer.receive(acknowledge=False)
        assert rig.ingress.memory.held <= 500_000
        peer.close()
        wait_for(lambda: not rig.ingress.memory.held)
