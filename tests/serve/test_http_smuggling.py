"""Every request of the corpus, at the server and through the proxy: one answer, the connection's end, nothing behind it reaches anyone.

The proxy runs beside an oracle of its own: the instance records each request it gets, so a smuggled one would be seen there.
"""

import socket
import threading

import pytest
from helpers.proxyrig import Rig

from .smuggling import REFUSED, SERVED


def split_answers(got):
    """The statuses of the final answers."""
    return [int(part[:3]) for part in got.split(b"HTTP/1.1 ")[1:] if not part.startswith(b"1")]


def received(connection):
    """What has come; the end is an error, so that a reader of a body that stops ends with it."""
    data = connection.recv(65536)
    if not data:
        raise ConnectionResetError("the connection ended inside a message")
    return data


class Recorder:
    """An instance that reads heads and bodies as a lenient server would, and keeps the targets."""

    def __init__(self):
        self.targets = []

    def serve(self, connection):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            self.targets.append(head.split(b" ")[1])
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
            if fields.get(b"transfer-encoding") == b"chunked":
                while b"0\r\n" not in data or not data.endswith(b"\r\n\r\n"):
                    data += received(connection)
                data = b""
            else:
                length = int(fields.get(b"content-length", 0))
                while len(data) < length:
                    data += received(connection)
                data = data[length:]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@pytest.fixture(scope="module")
def both():
    """(rig, recorder): one proxy for all cases."""
    with Rig() as rig:
        recorder = Recorder()
        rig.script(rig.queue(), recorder.serve)
        yield rig, recorder


@pytest.mark.parametrize("name", REFUSED)
def test_refused(both, name):
    rig, recorder = both
    message, statuses = REFUSED[name]
    before = len(recorder.targets)
    got, ended = rig.raw(message, wait=10)
    # A reset may overtake an answer to a client that still sends; nothing else may be missing.
    assert len(answers := split_answers(got)) == 1 and answers[0] in statuses, got[:300]
    assert ended and b"Connection: close" in got
    assert b"/smuggled" not in recorder.targets[before:]
    # A request whose head was good may have gone out before its body broke; never as a complete one.
    assert set(recorder.targets[before:]) <= {b"/first"}


@pytest.mark.parametrize("name", [name for name, (message, _) in REFUSED.items() if len(message) < 2000])
def test_refused_one_byte_at_a_time(both, name):
    rig, recorder = both
    message, statuses = REFUSED[name]
    before = len(recorder.targets)
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.settimeout(3)
        try:
            for i in range(len(message)):
                s.sendall(message[i : i + 1])
        except ConnectionError:
            pass
        got = b""
        try:
            while more := s.recv(65536):
                got += more
        except (ConnectionError, TimeoutError):
            pass
    answers = split_answers(got)
    assert len(answers) <= 1 and (not answers or answers[0] in statuses), got[:300]
    assert b"/smuggled" not in recorder.targets[before:]


@pytest.mark.parametrize("name", SERVED)
def test_served(both, name):
    rig, recorder = both
    message, count = SERVED[name]
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.settimeout(10)
        s.sendall(message)
        got = b""
        while got.count(b"\r\n\r\nok") < count:
            got += s.recv(65536)
        s.settimeout(0.1)
        with pytest.raises(TimeoutError):
            got += s.recv(65536)
    assert split_answers(got) == [200] * count, got[:500]


def test_the_corpus_is_large():
    assert len(REFUSED) > 120


def test_others_are_served_meanwhile(both):
    """200 hostile connections at once; a client beside them gets all its answers."""
    rig, _ = both
    messages = [message for message, _ in REFUSED.values()]
    threads = [threading.Thread(target=rig.raw, args=(messages[n % len(messages)],)) for n in range(200)]
    for thread in threads:
        thread.start()
    assert [rig.get()[0] for _ in range(50)] == [200] * 50
    for thread in threads:
        thread.join()
    assert rig.reports == []
