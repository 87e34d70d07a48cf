"""The proxy between real sockets: queue and slots, time-outs, fields, framing, upgrades, hostile instances, hostile clients."""

import contextlib
import errno
import json
import socket
import struct
import threading
import time

import pytest
from helpers.proxyrig import Rig, head_of

from krun.errors import SysError
from krun.serve.proxy.queue import Backend

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def wait_for(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@pytest.fixture
def rig():
    with Rig() as rig:
        yield rig
        assert rig.reports == []


def asked(rig, message, **options):
    got, _ = rig.raw(message, wait=0.5, **options)
    return json.loads(got.partition(b"\r\n\r\n")[2])


# ---------------------------------------------------------------------------------------------------- passing on


def test_a_request_and_its_response(rig):
    rig.echo(rig.queue())
    status, body = rig.get("/x?y=%20z", extra="X-Mine: 1\r\nx-mine: 2\r\nX-Bytes: \xe4\r\n")
    told = json.loads(body)
    assert status == 200 and told["target"] == "/x?y=%20z" and told["version"] == "HTTP/1.1"
    fields = [(n, v) for n, v in told["headers"]]
    assert fields[0] == ("Host", "a") and ("X-Mine", "1") in fields and ("x-mine", "2") in fields
    assert ("X-Forwarded-For", "127.0.0.1") in fields and ("X-Forwarded-Proto", "http") in fields
    assert ("Forwarded", "for=127.0.0.1;host=a;proto=http") in fields


def test_bodies_of_every_framing(rig):
    rig.echo(rig.queue())
    body = bytes(range(256)) * 3000
    assert json.loads(rig.get(method="POST", body=body)[1])["body"].encode("latin-1") == body
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(body[i : i + 5000]), body[i : i + 5000]) for i in range(0, len(body), 5000)
    )
    told = asked(
        rig,
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nT: 1\r\n\r\n",
    )
    assert told["body"].encode("latin-1") == body
    assert ["Transfer-Encoding", "chunked"] in told["headers"]


def test_connections_to_the_instance_are_used_again(rig):
    seen = []

    def serve(connection):
        seen.append(connection)
        while head_of(connection):
            connection.sendall(OK)

    rig.script(rig.queue(), serve)
    for _ in range(5):
        assert rig.get() == (200, b"ok")
    assert len(seen) == 1


@pytest.mark.parametrize(
    "response, wanted",
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n",
            b"hello",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
        (b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b""),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_responses_of_every_framing(rig, response, wanted, step):
    def serve(connection):
        head_of(connection)
        for i in range(0, len(response), step):
            connection.sendall(response[i : i + step])
            if step < 100:
                time.sleep(0.0002)

    rig.script(rig.queue(), serve)
    got, ended = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    final = got.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    head, _, body = final.partition(b"\r\n\r\n")
    assert ended and int(head.split(b" ")[1]) in (200, 204, 304)
    if b"chunked" in head:
        body = b"".join(body.split(b"\r\n")[1::2])
    assert body == wanted


def test_head_keeps_the_length(rig):
    rig.script(
        rig.queue(),
        lambda c: (head_of(c), c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n"), time.sleep(0.3)),
    )
    got, _ = rig.raw(b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: 77" in got and got.endswith(b"\r\n\r\n")


def test_trailers_pass_in_both_directions(rig):
    seen = []

    def serve(connection):
        got = b""
        while b"\r\n0\r\n" not in got or not got.endswith(b"\r\n\r\n"):
            got += connection.recv(4096)
        seen.append(got)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nBack: 2\r\n\r\n"
        )

    rig.script(rig.queue(), serve)
    got, _ = rig.raw(
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nForth: 1\r\n\r\n",
        wait=0.5,
    )
    assert seen[0].endswith(b"0\r\nForth: 1\r\n\r\n") and got.endswith(b"0\r\nBack: 2\r\n\r\n")


def test_expect_continue_is_the_instances(rig):
    def serve(connection):
        assert b"100-continue" in head_of(connection).lower()
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert connection.recv(10) == b"hi"
        connection.sendall(OK)

    rig.script(rig.queue(), serve)
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.settimeout(2)
        s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"hi")
        assert s.recv(1000).endswith(b"ok")


def test_hop_by_hop_fields_stay(rig):
    rig.echo(rig.queue())
    told = asked(
        rig,
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers, gzip\r\n"
        b"Proxy-Authorization: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nK-Original-Host: evil\r\nX-Kept: 1\r\n\r\n",
    )
    names = {name.lower(): value for name, value in told["headers"]}
    assert set(names) == {
        "host",
        "te",
        "x-kept",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "forwarded",
    }
    assert names["te"] == "trailers" and names["host"] == "a"


def test_a_length_that_connection_names_still_frames(rig):
    """Without the field the instance would read the body as its next request."""
    rig.echo(rig.queue())
    told = asked(
        rig, b"POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello"
    )
    assert told["body"] == "hello"


@pytest.mark.parametrize(
    "line", ["Content-Length:5", "CONTENT-LENGTH: 5", "Content-Length:\t5\t", "Content-Length: 005 "]
)
def test_a_length_has_one_form_behind_the_proxy(rig, line):
    """A parser that reads the line differently must not get it: the body would be its next request, or the client's next response."""
    seen = []

    def serve(connection):
        seen.append(head_of(connection))
        connection.sendall(f"HTTP/1.1 200 OK\r\nX-Content-Length: 5\r\n{line}\r\n\r\nhello".encode())

    rig.script(rig.queue(), serve)
    got, _ = rig.raw(
        f"POST / HTTP/1.1\r\nHost: a\r\nX-Content-Length: 5\r\n{line}\r\n\r\nhello".encode(), until=b"hello"
    )
    for message in (seen[0], got):
        lengths = [one for one in message.split(b"\r\n") if one.lower().startswith(b"content-length")]
        assert lengths == [b"Content-Length: 5"], message


@pytest.mark.parametrize(
    "given, shown",
    [
        ("X-Forwarded-For: 1.2.3.4\r\n", "for=1.2.3.4;host=a;proto=http, for=127.0.0.1"),
        (
            "X-Forwarded-For: 2001:db8::1, 1.2.3.4\r\n",
            'for="[2001:db8::1]";host=a;proto=http, for=1.2.3.4, for=127.0.0.1',
        ),
        ('X-Forwarded-For: ev"il;x\r\n', "for=unknown;host=a;proto=http, for=127.0.0.1"),
        ("X-Forwarded-Proto: https\r\n", "for=127.0.0.1;host=a;proto=http"),
        ("Forwarded: for=9.9.9.9\r\n", "for=9.9.9.9, for=127.0.0.1;host=a;proto=http"),
    ],
)
def test_forwarded(rig, given, shown):
    rig.echo(rig.queue())
    names = dict(json.loads(rig.get(extra=given)[1])["headers"])
    assert names["Forwarded"] == shown and names["X-Forwarded-Proto"] == "http"
    assert names["X-Forwarded-For"].endswith("127.0.0.1")


def test_host_with_a_port_is_quoted(rig):
    rig.echo(rig.queue())
    names = dict(json.loads(rig.get(host="A:8080")[1])["headers"])
    assert names["Host"] == "A:8080" and names["Forwarded"] == 'for=127.0.0.1;host="A:8080";proto=http'


def test_absolute_form_replaces_host(rig):
    rig.echo(rig.queue())
    told = asked(rig, b"GET http://a/x HTTP/1.1\r\nHost: other\r\n\r\n")
    assert told["target"] == "/x" and ["Host", "a"] in told["headers"]


# -------------------------------------------------------------------------------------------------------- routes


def test_hosts_weights_and_tags(rig):
    one, two = rig.queue("one", host=None), rig.queue("two", host=None)
    first, second = rig.echo(one), rig.echo(two)
    rig.route("a", [(one, 80), (two, 20)])
    ports = [json.loads(rig.get()[1])["port"] for _ in range(200)]
    share = sum(str(p) in second.name for p in ports) / 200
    assert 0.08 < share < 0.35 and first is not second
    from krun.serve.proxy.routes import Target

    rig.route("a", [(one, 100), (two, 0)], tags={"t": Target(two, 100, "t")})
    told = json.loads(rig.get(extra="Knative-Serving-Tag: t\r\n")[1])
    assert str(told["port"]) in second.name
    told = json.loads(rig.get(extra="Knative-Serving-Tag: none\r\n")[1])
    assert str(told["port"]) in first.name and ["Knative-Serving-Default-Route", "true"] in told["headers"]
    for host in ("A", "a.", "a:80", "A:8080"):
        assert rig.get(host=host)[0] == 200
    for host in ("b", "", "aa", "[::1]:80", "a..", "a:b"):
        assert rig.get(host=host)[0] in (404, 400)


def test_local_hosts_and_redirects(rig):
    queue = rig.queue("local", host=None)
    rig.echo(queue)
    rig.route("a", [(queue, 100)], visibility="cluster-local")
    assert rig.get()[0] == 404
    got, _ = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", port=rig.local_port)
    assert got.startswith(b"HTTP/1.1 200")
    rig.route("a", [(queue, 100)], redirect_https=True)
    got, _ = rig.raw(b"GET /p?q HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 301") and b"Location: https://a/p?q\r\n" in got


def test_probes_are_answered_here(rig):
    queue = rig.queue()
    probe = "K-Network-Probe: {}\r\n"
    assert rig.get(extra=probe.format("probe"))[0] == 400
    got, _ = rig.raw(
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nK-Network-Probe: probe\r\nK-Network-Hash: h1\r\n\r\n"
    )
    assert got.startswith(b"HTTP/1.1 200") and b"K-Network-Hash: h1" in got
    assert rig.get(extra=probe.format("queue"))[0] == 503
    rig.echo(queue)
    assert rig.get(extra=probe.format("queue")) == (200, b"queue")
    assert rig.get(extra=probe.format("x"))[0] == 400


# ------------------------------------------------------------------------------------------------ queue and slots


class Held:
    """Instances whose requests end when the test says so."""

    def __init__(self):
        self.order, self.running, self.most = [], 0, 0
        self.lock = threading.Lock()
        self.go = threading.Semaphore(0)

    def serve(self, connection):
        while True:
            path = head_of(connection).split(b" ")[1].decode()
            with self.lock:
                self.order.append(path)
                self.running += 1
                self.most = max(self.most, self.running)
            self.go.acquire()
            with self.lock:
                self.running -= 1
            connection.sendall(OK)


def in_threads(count, function):
    """Starts function(0..count-1), each after the one before it has been sent; returns (threads, results)."""
    results = [None] * count

    def run(number):
        results[number] = function(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    return threads, results


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_slots_are_exact_and_waiting_is_in_order(rig, slots):
    held = Held()
    queue = rig.queue(concurrency=slots)
    rig.script(queue, held.serve)
    threads, results = in_threads(slots + 8, lambda n: rig.get(f"/{n}"))
    for number, thread in enumerate(threads):
        thread.start()
        wait_for(lambda: queue.in_flight + queue.queued == number + 1)  # noqa: B023
    wait_for(lambda: held.running == slots)
    assert (queue.in_flight, queue.queued) == (slots, 8)
    for _ in threads:
        held.go.release()
    for thread in threads:
        thread.join()
    assert results == [(200, b"ok")] * (slots + 8) and held.most == slots
    assert held.order[slots:] == [f"/{n}" for n in range(slots, slots + 8)] or slots > 1
    assert (queue.in_flight, queue.queued) == (0, 0)


def test_the_queue_has_an_end(rig):
    held = Held()
    queue = rig.queue(concurrency=1, queue=10)
    rig.script(queue, held.serve)
    threads, results = in_threads(11, lambda n: rig.get(f"/{n}"))
    for number, thread in enumerate(threads):
        thread.start()
        wait_for(lambda: queue.in_flight + queue.queued == number + 1)  # noqa: B023
    assert rig.get() == (503, b"pending request queue full\n")
    for _ in threads:
        held.go.release()
    for thread in threads:
        thread.join()
    assert results == [(200, b"ok")] * 11


def test_a_request_at_zero_wakes_and_waits(rig):
    arrivals = []
    queue = rig.queue()
    queue.on_arrival = lambda q: arrivals.append(q.queued)
    threads, results = in_threads(20, lambda n: rig.get(f"/{n}"))
    for thread in threads:
        thread.start()
    wait_for(lambda: queue.queued == 20)
    assert len(arrivals) == 20
    rig.echo(queue)
    for thread in threads:
        thread.join()
    assert [status for status, _ in results] == [200] * 20
    sample = rig.call(lambda: queue.stats(rig.loop.time()))
    assert sample.requests == 20 and sample.average_concurrency > 0 and sample.average_queued > 0


def test_a_failed_revision_answers_at_once(rig):
    queue = rig.queue()
    threads, results = in_threads(3, lambda n: rig.get())
    for thread in threads:
        thread.start()
    wait_for(lambda: queue.queued == 3)
    rig.call(lambda: queue.fail("the image is not there", rig.loop.time()))
    for thread in threads:
        thread.join()
    assert results == [(503, b"the image is not there\n")] * 3 == [rig.get()] * 3
    rig.echo(queue)
    assert rig.get()[0] == 200


def test_ten_thousand_refusals_do_not_recurse(rig):
    """Each connect fails at once: the queue must go on in a loop, not by recursion."""

    queue = rig.queue(concurrency=1)

    class Waiting:
        ended, client = 0, ""

        def attach(self, backend):
            Waiting.ended += 1
            queue.release(backend, rig.loop.time())

    keep = []

    def fill():
        for _ in range(5000):
            waiter = Waiting()
            keep.append(waiter)
            queue.enter(waiter, rig.loop.time())

    rig.call(fill)
    rig.call(lambda: queue.add(Backend("x", lambda: None, 1), rig.loop.time()))
    assert Waiting.ended == 5000 and queue.in_flight == 0


@pytest.mark.parametrize("http2", [False, True])
def test_a_failure_of_the_proxy_itself_costs_no_slot(monkeypatch, http2):
    """An exception on the way to the instance: 500, a report, the slot is free again."""
    from helpers.h2peer import H2Peer

    from krun.serve.proxy import headers

    with Rig() as rig:
        queue = rig.queue(concurrency=1)
        rig.echo(queue)
        assert rig.get()[0] == 200
        for name in ("request_lines", "_forwarded"):
            monkeypatch.setattr(headers, name, lambda *arguments: 1 / 0)
        if http2:
            peer = H2Peer(socket.create_connection(("127.0.0.1", rig.port)))
            assert peer.answer(peer.request())["status"] == 500
        else:
            assert rig.get()[0] == 500
        monkeypatch.undo()
        assert queue.in_flight == 0 and "ZeroDivisionError" in rig.reports[0]
        assert rig.get()[0] == 200


def test_spread_over_instances(rig):
    held = [Held() for _ in range(3)]
    queue = rig.queue(concurrency=2)
    for h in held:
        rig.script(queue, h.serve)
    threads, _ = in_threads(6, lambda n: rig.get())
    for thread in threads:
        thread.start()
    wait_for(lambda: sum(h.running for h in held) == 6)
    assert [h.running for h in held] == [2, 2, 2]
    for h in held:
        for _ in range(2):
            h.go.release()
    for thread in threads:
        thread.join()


def test_removal_waits_for_requests(rig):
    held = Held()
    queue = rig.queue()
    backend = rig.script(queue, held.serve)
    thread = threading.Thread(target=rig.get)
    thread.start()
    wait_for(lambda: held.running == 1)
    removed = rig.call(lambda: (queue.remove(backend),))[0]
    other = rig.echo(queue)
    assert rig.get()[0] == 200 and not removed.done()
    held.go.release()
    thread.join()
    wait_for(removed.done)
    assert queue.backends == [other]


def test_a_client_that_goes_frees_its_place(rig):
    held = Held()
    queue = rig.queue(concurrency=1)
    rig.script(queue, held.serve)
    first = socket.create_connection(("127.0.0.1", rig.port))
    first.sendall(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: held.running == 1)
    second = socket.create_connection(("127.0.0.1", rig.port))
    second.sendall(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: queue.queued == 1)
    second.close()
    wait_for(lambda: queue.queued == 0)
    first.close()
    wait_for(lambda: queue.in_flight == 0)


# ----------------------------------------------------------------------------------------------------- time-outs


def test_timeout_before_the_response(rig):
    rig.script(rig.queue(timeout=0.3), lambda c: (head_of(c), time.sleep(2)))
    begin = time.monotonic()
    assert rig.get() == (504, b"request timeout")
    assert 0.25 < time.monotonic() - begin < 1.5


def test_timeout_in_the_queue(rig):
    queue = rig.queue(timeout=0.3)
    assert rig.get() == (504, b"request timeout") and queue.queued == 0


def test_response_start_timeout(rig):
    def serve(connection):
        if b"/slow" in head_of(connection):
            time.sleep(1)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        time.sleep(0.6)
        connection.sendall(b"ok")

    rig.script(rig.queue(timeout=5, response_start=0.3), serve)
    assert rig.get("/slow") == (504, b"request timeout")
    assert rig.get("/fast") == (200, b"ok")


def streaming(connection):
    head_of(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n")
    time.sleep(3)


def test_timeout_after_the_first_byte_ends_cleanly(rig):
    rig.script(rig.queue(timeout=0.3), streaming)
    got, ended = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", wait=1)
    assert (
        got.startswith(b"HTTP/1.1 200")
        and got.endswith(b"5\r\nbegin\r\nf\r\nrequest timeout\r\n0\r\n\r\n")
        and not ended
    )


def test_timeout_after_the_first_byte_aborts_on_wish(rig):
    rig.script(rig.queue(timeout=0.3, abort_on_timeout=True), streaming)
    got, ended = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", wait=1)
    assert got.endswith(b"begin\r\n") and ended


def test_timeout_of_a_declared_length_is_no_complete_answer(rig):
    rig.script(
        rig.queue(timeout=0.3),
        lambda c: (
            head_of(c),
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin"),
            time.sleep(2),
        ),
    )
    got, ended = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", wait=1)
    assert ended and len(got.partition(b"\r\n\r\n")[2]) < 100


def test_idle_timeout(rig):
    def serve(connection):
        head_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(4):
            connection.sendall(b"1\r\nx\r\n")
            time.sleep(0.2)
        time.sleep(2)

    rig.script(rig.queue(timeout=60, idle=0.4), serve)
    got, _ = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", until=b"request timeout")
    assert got.count(b"1\r\nx\r\n") == 4 and b"request timeout" in got


# --------------------------------------------------------------------------------------------- hostile instances

BAD_RESPONSES = {
    "no http": b"hello\r\n\r\n",
    "both framings": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
    "obs-fold": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
    "NUL": b"HTTP/1.1 200 OK\r\nA: \0\r\nContent-Length: 2\r\n\r\nok",
    "blank before colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    "gzip": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nok",
    "status": b"HTTP/1.1 20x OK\r\nContent-Length: 2\r\n\r\nok",
    "version": b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "unasked 101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "interim without end": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100,
    "large head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100000 + b"\r\n\r\n",
    "many fields": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-",
}


@pytest.mark.parametrize("name", BAD_RESPONSES)
def test_bad_responses_are_502(rig, name):
    rig.script(rig.queue(), lambda c: (head_of(c), c.sendall(BAD_RESPONSES[name])))
    got, _ = rig.raw(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    final = got[got.rindex(b"HTTP/1.1 ") :]
    assert final.startswith(b"HTTP/1.1 502"), got[:200]


@pytest.mark.parametrize(
    "body",
    [
        b"2\r\nok\r\nzz\r\n",
        b"2\r\nokX",
        b"2\nok\r\n0\r\n\r\n",
        b"-1\r\n\r\n",
        b"0x2\r\nok\r\n0\r\n\r\n",
        b"2\r\nok\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"1000000000000000000\r\nok",
        b"2\r\nok\r\n",
    ],
)
def test_bad_chunks_never_look_complete(rig, body):
    rig.script(
        rig.queue(),
        lambda c: (
            head_of(c),
            c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            time.sleep(0.1),
            c.sendall(body),
        ),
    )
    got, ended = rig.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert ended and not got.endswith(b"0\r\n\r\n")


def test_what_comes_behind_a_response_reaches_nobody(rig):
    """The instance sends two answers for one request; the next client must not get the second one."""

    def serve(connection):
        while b"GET" in head_of(connection):
            connection.sendall(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    rig.script(rig.queue(), serve)
    assert [rig.get() for _ in range(20)] == [(200, b"ok")] * 20


def test_what_comes_later_without_a_request_reaches_nobody(rig):
    ended = []

    def serve(connection):
        head_of(connection)
        connection.sendall(OK)
        time.sleep(0.02)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        # The proxy closes a connection on which something comes that nobody has asked for.
        ended.append(connection.recv(1))

    rig.script(rig.queue(), serve)
    for count in range(1, 11):
        assert rig.get() == (200, b"ok")
        wait_for(lambda count=count: len(ended) == count)
    assert ended == [b""] * 10


def test_an_idle_connection_that_the_instance_closed(rig):
    """A GET is sent again on a new connection; a POST after a pause takes a new one at once."""
    seen = []

    def serve(connection):
        seen.append(head_of(connection))
        connection.sendall(OK)
        # Not a word about closing; gone while the next request is on its way.
        connection.recv(1)

    rig.script(rig.queue(), serve)
    assert [rig.get() for _ in range(5)] == [(200, b"ok")] * 5
    time.sleep(1.2)
    assert rig.get(method="POST", body=b"x") == (200, b"ok")


def test_nothing_listens(rig):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    queue = rig.queue()
    rig.add(queue, address)
    assert rig.get() == (502, b"connect to the instance: Connection refused\n")
    assert queue.in_flight == 0
    # Another instance takes over.
    rig.echo(queue)
    assert {rig.get()[0] for _ in range(20)} == {200}


def test_an_instance_that_has_gone_before_the_connect(rig):
    """Its network namespace is no more (the worker was killed): such a request had no answer before its time was over."""

    def gone():
        raise SysError("setns", "network namespace of an instance", errno.EBADF)

    queue = rig.queue()
    rig.call(lambda: queue.add(Backend("gone", gone), rig.loop.time()))
    answer = (502, b"connect to the instance: setns network namespace of an instance: bad file descriptor\n")
    assert rig.get() == answer
    assert queue.in_flight == 0


# ----------------------------------------------------------------------------------------------- back-pressure


def test_a_client_that_does_not_read_stops_the_instance(rig):
    sent = [0]

    def serve(connection):
        head_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            sent[0] += connection.send(b"x" * 65536)

    rig.script(rig.queue(), serve)
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(0.7)
        before = sent[0]
        time.sleep(0.3)
        assert before == sent[0] < 30 << 20
        got = 0
        while got < before:
            got += len(s.recv(1 << 20))
        wait_for(lambda: sent[0] > before)


def test_an_instance_that_does_not_read_stops_the_client(rig):
    rig.script(rig.queue(), lambda c: (head_of(c), time.sleep(3)))
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.settimeout(0.5)
        s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
        total = 0
        with pytest.raises(TimeoutError):
            while True:
                total += s.send(b"x" * 65536)
        assert total < 30 << 20


# ----------------------------------------------------------------------------------------------------- upgrades


def websocket(connection):
    head = head_of(connection)
    assert b"Upgrade: websocket\r\n" in head and b"Connection: Upgrade\r\n" in head
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-X: y\r\n\r\nfirst"
    )
    while data := connection.recv(65536):
        connection.sendall(data.upper())
    connection.sendall(b"bye")


UPGRADE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def test_upgrade_is_a_tunnel_and_ends_on_both_sides(rig):
    queue = rig.queue()
    rig.script(queue, websocket)
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.settimeout(2)
        s.sendall(UPGRADE + b"early")
        got = b""
        while not got.endswith(b"EARLY"):
            got += s.recv(4096)
        head, _, rest = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101") and b"Sec-X: y" in head and rest == b"firstEARLY"
        assert queue.in_flight == 1
        s.sendall(b"x" * 300000)
        got = b""
        while len(got) < 300000:
            got += s.recv(65536)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(100) == b"bye" and s.recv(100) == b""
    wait_for(lambda: queue.in_flight == 0)


def test_upgrade_that_the_instance_refuses(rig):
    rig.script(
        rig.queue(), lambda c: (head_of(c), c.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"))
    )
    assert rig.raw(UPGRADE, wait=0.5)[0].startswith(b"HTTP/1.1 403")


def reset(sock):
    """Close with RST, as a machine that has gone answers."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def fill(rig, sock):
    """Send until the proxy reads no more (a connection whose protocol is not known yet is none that it reads). There is room in the kernel's buffer for the end then, which comes behind the data."""
    while not rig.call(
        lambda: any(getattr(c, "_paused", False) for c in rig.ingress._fronts[0].endpoint.connections)
    ):
        sock.send(b"x" * 65536)


@pytest.mark.parametrize("instances", [0, 1])
@pytest.mark.parametrize("leave", [reset, socket.socket.close])
def test_a_client_that_goes_while_its_upload_waits_frees_its_slot(rig, leave, instances):
    """Nobody read from it, so that nobody saw its end: the request waited for its time-out."""
    queue = rig.queue()
    go = threading.Event()
    if instances:
        rig.script(queue, lambda c: (head_of(c), go.wait(20)))
    client = socket.create_connection(("127.0.0.1", rig.port))
    client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
    fill(rig, client)
    assert rig.call(lambda: len(rig.ingress._fronts[0].endpoint.connections)) == 1
    leave(client)
    wait_for(lambda: rig.call(lambda: queue.in_flight + len(queue.waiting)) == 0)
    wait_for(lambda: rig.call(lambda: len(rig.ingress._fronts[0].endpoint.connections)) == 0)
    go.set()


def silent(gone):
    """An instance that upgrades, and neither reads nor writes until `gone` is set."""

    def serve(connection):
        head_of(connection)
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        if gone is not None:
            gone.wait(20)

    return serve


def tunnel(rig):
    client = socket.create_connection(("127.0.0.1", rig.port))
    client.settimeout(10)
    client.sendall(UPGRADE)
    assert client.recv(4096).startswith(b"HTTP/1.1 101")
    return client


def test_a_client_that_goes_while_its_tunnel_is_full_ends_both_halves(rig):
    queue, gone = rig.queue(), threading.Event()
    rig.script(queue, silent(gone))
    client = tunnel(rig)
    fill(rig, client)
    assert queue.in_flight == 1
    reset(client)
    wait_for(lambda: queue.in_flight == 0)
    gone.set()


@pytest.mark.parametrize("full", [False, True])
def test_a_tunnel_of_which_one_half_has_ended_ends_when_nothing_comes(rig, full, monkeypatch):
    """A client that has gone and one that only stops sending look alike; the instance never ends its half."""
    monkeypatch.setattr("krun.serve.proxy.exchange.HALF_CLOSED", 0.3)
    queue, gone = rig.queue(), threading.Event()
    rig.script(queue, silent(gone))
    with tunnel(rig) as client:
        if full:
            fill(rig, client)
        client.shutdown(socket.SHUT_WR)
        wait_for(lambda: queue.in_flight == 0)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(10) == b""
    gone.set()


def test_a_half_closed_tunnel_goes_on_while_something_comes(rig, monkeypatch):
    monkeypatch.setattr("krun.serve.proxy.exchange.HALF_CLOSED", 0.3)
    queue = rig.queue()

    def serve(connection):
        silent(None)(connection)
        while connection.recv(100):
            pass
        for i in range(12):
            connection.sendall(b"%d." % i)
            time.sleep(0.1)

    rig.script(queue, serve)
    with tunnel(rig) as client:
        client.shutdown(socket.SHUT_WR)
        got = b""
        while data := client.recv(100):
            got += data
    assert got == b"".join(b"%d." % i for i in range(12))
    wait_for(lambda: queue.in_flight == 0)


def test_an_instance_that_goes_ends_both_halves_of_its_tunnel(rig):
    """The client got the end of one half, and its tunnel kept its slot for as long as it did not end its own."""
    queue = rig.queue()

    def serve(connection):
        silent(None)(connection)
        reset(connection)

    rig.script(queue, serve)
    with tunnel(rig) as client:
        wait_for(lambda: queue.in_flight == 0)
        assert client.recv(10) == b""


def test_timeout_ends_a_tunnel(rig):
    queue = rig.queue(timeout=0.4)
    rig.script(queue, websocket)
    got, ended = rig.raw(UPGRADE)
    assert got.endswith(b"first") and ended and queue.in_flight == 0


# ------------------------------------------------------------------------------------------- metrics and the log


def test_metrics_and_log():
    from krun.serve.proxy import accesslog

    lines = []
    with Rig(access_log=accesslog.writer(lines.append), server_timing=True, trace=True) as rig:
        queue = rig.queue(service="svc", configuration="cfg")
        rig.echo(queue)
        got, _ = rig.raw(b'GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: "q"\r\nConnection: close\r\n\r\n')
        assert b"Server-Timing: queue;dur=" in got and b'"traceparent", "00-' in got
        rig.get(extra="traceparent: 00-aa-bb-01\r\n")
        rig.raw(b"GET / HTTP/1.1\r\n\r\n", wait=0.3)
        wait_for(lambda: len(lines) == 2)
        entry = json.loads(lines[0])
        assert entry["httpRequest"]["status"] == 200 and entry["httpRequest"]["userAgent"] == '"q"'
        assert entry["revision"]["service"] == "svc" and entry["httpRequest"]["remoteIp"] == "127.0.0.1"
        assert json.loads(lines[1])["traceId"] == "00-aa-bb-01"
        text = rig.call(lambda: rig.ingress.metrics.text([queue]))
        assert 'revision_request_count{k8s_namespace_name="default",kn_service_name="svc"' in text
        assert 'response_code="200",response_code_class="2xx"} 2' in text
        assert 'le="+Inf"} 2' in text and 'krun_http_refused_total{http_response_status_code="400"} 1' in text
        for line in text.splitlines():
            assert line.startswith("# TYPE ") or line.split(" ")[1].replace(".", "").isdigit(), line


def test_draining_ends_what_runs_and_takes_nothing_new():
    held = Held()
    with Rig() as rig:
        rig.script(rig.queue(), held.serve)
        threads, results = in_threads(1, lambda n: rig.get())
        threads[0].start()
        wait_for(lambda: held.running == 1)
        closing = threading.Thread(target=lambda: rig.call(lambda: rig.ingress.close(5)))
        closing.start()
        time.sleep(0.1)
        with pytest.raises(OSError):
            rig.get()
        held.go.release()
        threads[0].join()
        closing.join()
        assert results == [(200, b"ok")]
