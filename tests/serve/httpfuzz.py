"""The HTTP/1.1 front beside two other parsers: h11 (strict, Python) and llhttp (httptools).

    .venv/bin/python tests/serve/httpfuzz.py [SECONDS [SEED]]

Mutants of the corpus go to the front in one piece and in random segments.  Three rules: the segments do not matter; nothing but an answer
comes out (no exception, no stall); and a message that the front takes is the same one for both others: method, target, fields,
body, and the place where the next one begins.  The front may refuse what the others take: those are counted.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import h11
import httptools
from helpers.httpwire import feed

from krun.serve.http.h1 import H1Connection
from krun.serve.http.types import Limits

LIMITS = Limits(head=4096, target=1024, fields=50, trailers=512)


async def _settle(connection):
    while connection._busy:
        await asyncio.sleep(0)


async def front(data, cuts):
    """(messages, the answer, whether the connection was ended) of the front for `data`, cut at `cuts`."""
    return await feed(H1Connection, LIMITS, data, cuts, _settle)


def statuses(out):
    """The classes of the answers."""
    return [part[:1].replace(b"5", b"4") for part in out.split(b"HTTP/1.1 ")[1:]]


def by_h11(data, count):
    """The first `count` messages as h11 reads them; None in the place of one that it refuses."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    found = []
    try:
        while len(found) < count:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request, body = event, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                fields = [(n.lower(), v) for n, v in request.headers]
                found.append((request.method, request.target, fields, body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is h11.MUST_CLOSE:
                    break
                connection.start_next_cycle()
            else:
                break
    except h11.LocalProtocolError:
        # An upgrade that it expects to be answered with 101: it reads no further.
        pass
    except h11.RemoteProtocolError as error:
        found.append(f"h11: {error}")
    return found


class _Llhttp:
    def __init__(self, data, count):
        self.found, self.fields, self.url, self.body = [], [], b"", b""
        self.count = count
        self.parser = httptools.HttpRequestParser(self)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            self.found.append(f"llhttp: {type(error).__name__} {error}")

    def on_message_begin(self):
        self.fields, self.url, self.body = [], b"", b""

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        self.fields.append((name.lower(), value.strip(b" \t")))

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        if len(self.found) < self.count:
            self.found.append((self.parser.get_method(), self.url, self.fields, self.body))


def plain(message):
    """A message of the front without what the others do not tell; trailers stand with the fields in llhttp."""
    method, target, _, fields, body, trailers = message
    return method, target, fields, body, [(n.lower(), v) for n, v in trailers]


def compare(messages, data, refusals):
    """Raises AssertionError if another parser reads one of `messages` differently."""
    for name, found in (("h11", by_h11(data, len(messages))), ("llhttp", _Llhttp(data, len(messages)).found)):
        for ours, theirs in zip(messages, found, strict=False):
            if isinstance(theirs, str):
                refusals[theirs] += 1
                break
            method, target, fields, body, trailers = plain(ours)
            if name == "h11":
                # It changes this value to lower case.
                fields = [(n, v.lower() if n == b"transfer-encoding" else v) for n, v in fields]
            their_target = theirs[1]
            if target != their_target and b"://" in their_target:
                their_target = "/" + their_target.split(b"://", 1)[1].partition(b"/")[2].decode("latin-1")
                their_target = their_target.encode("latin-1")
                if target[:2] == b"/?":
                    their_target = target
            assert (method, target, body) == (theirs[0], their_target, theirs[3]), (name, ours, theirs)
            assert theirs[2] in (fields, fields + trailers), (name, fields, theirs[2])


TOKENS = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\x0b", b"\xa0", b";", b",", b"0", b"5", b"chunked", b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Host: b\r\n", b"GET / HTTP/1.1\r\n", b"HTTP/1.0", b"0\r\n\r\n", b"\r\n\r\n", b"5\r\nhello\r\n",
    b"Connection: close\r\n", b"Connection: content-length\r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n", b"\xff", b"%", b"#", b"http://b",
]  # fmt: skip


def mutant(rng, corpus):
    """A message of the corpus with some changes."""
    data = bytearray(rng.choice(corpus)[:3000])
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at:at] = rng.choice(TOKENS)
        elif kind == 2:
            del data[at : at + rng.choice([1, 1, 2, 5, 30])]
        elif kind == 3:
            end = min(len(data), at + rng.randrange(1, 40))
            data[at:at] = data[at:end]
        elif kind == 4:
            other = rng.choice(corpus)[:3000]
            data[at:] = other[rng.randrange(len(other) + 1) :]
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


async def fuzz(seconds, seed, corpus):
    """Fuzzes; returns counts.  Raises AssertionError with the message that broke a rule."""
    rng = random.Random(seed)
    counts, refusals = Counter(), Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutant(rng, corpus)
        try:
            messages, out, ended = await front(data, [])
            cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice([1, 3, 10])))
            again, out2, ended2 = await front(data, cuts)
            assert messages == again, (cuts, messages, again)
            # A message with two faults may be refused for either.
            assert ended == ended2 and statuses(out) == statuses(out2), (cuts, out, out2)
            compare(messages, data, refusals)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {data!r}: {error}") from error
        counts["messages"] += 1
        counts["served"] += len(messages)
        if ended and b"HTTP/1.1 4" in out or b"HTTP/1.1 5" in out:
            counts["refused"] += 1
    return counts, refusals


def corpus():
    """The bytes to start from."""
    import importlib.util

    path = Path(__file__).with_name("smuggling.py")
    spec = importlib.util.spec_from_file_location("smuggling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [m for m, _ in module.REFUSED.values()] + [m for m, _ in module.SERVED.values()] * 8


if __name__ == "__main__":
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    done, others = asyncio.run(fuzz(length, start, corpus()))
    print(dict(done))
    for reason, number in others.most_common(25):
        print(f"{number:7} taken by the front, refused by {reason}")
