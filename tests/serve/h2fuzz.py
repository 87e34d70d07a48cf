"""The HTTP/2 front beside h2 as another server, frame by frame.

    .venv/bin/python tests/serve/h2fuzz.py [SECONDS [SEED]]

Mutants of recorded frame sequences go to the front in one piece and in random segments.  Four rules: nothing but frames comes out (no exception, no
stall, no half frame); each request that the front delivers is one that h2 reads from the same bytes: method, target, authority, fields,
body, trailers; the segments do not matter, except that a piece which breaks the protocol may lose the requests in it; no stream is answered that
was not begun.
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

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from helpers.httpwire import feed
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from krun.serve.http.h2 import H2Connection
from krun.serve.http.types import Limits

LIMITS = Limits(head=4096, target=1024, fields=50, trailers=512)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Fields that the front takes away or makes: h2 tells them as they came.
_OWN = (b"host", b"cookie")


async def _settle(_):
    for _ in range(3):
        await asyncio.sleep(0)


async def front(data, cuts):
    """(requests, what was sent, whether the connection was ended) of the front for `data`, cut at `cuts`."""
    return await feed(H2Connection, LIMITS, data, cuts, _settle)


def by_h2(data):
    """The complete requests as h2 reads them, frame by frame: an error ends it, what came before is told."""
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding=None, validate_inbound_headers=False)
    )
    connection.initiate_connection()
    # What the front tells in its own first settings.
    connection.local_settings.max_header_list_size = 1 << 20
    begun, found, streams = {}, [], set()
    try:
        for piece in frames(data):
            for event in connection.receive_data(piece):
                if isinstance(event, h2.events.RequestReceived):
                    begun[event.stream_id] = [list(event.headers), b"", []]
                    streams.add(event.stream_id)
                elif isinstance(event, h2.events.DataReceived):
                    begun[event.stream_id][1] += event.data
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.TrailersReceived):
                    begun[event.stream_id][2] = list(event.headers)
                elif isinstance(event, h2.events.StreamEnded):
                    found.append(begun[event.stream_id])
            connection.data_to_send()
    except (h2.exceptions.ProtocolError, KeyError, ValueError):
        # The front may have reset the stream of this frame itself, and ignores the frame then (RFC 9113, section 5.1): it reads on.
        return found, None
    return found, streams


def frames(data):
    """Cuts a stream of bytes behind the preface and behind each frame."""
    yield data[: len(PREFACE)]
    at = len(PREFACE)
    while at < len(data):
        size = 9 + int.from_bytes(data[at : at + 3], "big")
        yield data[at : at + size]
        at += size


def plain(request):
    """A request of h2 as the front tells it: pseudo fields apart."""
    fields, body, trailers = request
    pseudo = {name: value for name, value in fields if name[:1] == b":"}
    rest = [(name, value.strip(b" \t")) for name, value in fields if name[:1] != b":" and name not in _OWN]
    return pseudo.get(b":method"), pseudo.get(b":path"), rest, body, trailers


def compare(messages, data):
    """Raises AssertionError for a request that h2 does not read from `data`."""
    theirs, streams = by_h2(data)
    left = [plain(one) for one in theirs]
    for method, target, _, fields, body, trailers in messages:
        rest = [(name, value) for name, value in fields if name not in _OWN and name != b"content-length"]
        for other in left:
            wanted = [(name, value) for name, value in other[2] if name != b"content-length"]
            if (
                (method, target, body) == (other[0], other[1], other[3])
                and rest == wanted
                and [(name, value) for name, value in trailers]
                == [(name, value.strip(b" \t")) for name, value in other[4]]
            ):
                left.remove(other)
                break
        else:
            if streams is None:
                continue
            raise AssertionError(f"no such request: {(method, target, fields, body, trailers)!r} of {left!r}")
    return streams


def sound(out, streams):
    """What the front sent is whole frames, and answers nothing that was not asked."""
    at = 0
    while at < len(out):
        assert len(out) - at >= 9, out[at:]
        frame, length = Frame.parse_frame_header(memoryview(out[at : at + 9]))
        assert at + 9 + length <= len(out), "half a frame"
        frame.parse_body(memoryview(out[at + 9 : at + 9 + length]))
        if isinstance(frame, HeadersFrame | DataFrame):
            assert streams is None or frame.stream_id in streams, (
                f"stream {frame.stream_id} is answered, and was not begun"
            )
        at += 9 + length


def corpus():
    """Sequences of frames as clients send them."""
    out = []
    for make in (_plain, _bodies, _trailers, _many, _padded, _control):
        conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        conn.initiate_connection()
        make(conn)
        out.append([piece for piece in frames(conn.data_to_send()) if piece])
    split = HeadersFrame(1, out[0][2][9:20], flags=["END_STREAM"]).serialize()
    rest = ContinuationFrame(1, out[0][2][20:], flags=["END_HEADERS"]).serialize()
    out.append([*out[0][:2], split, rest])
    return out


def _head(method=b"GET", path=b"/", *more):
    return [(b":method", method), (b":scheme", b"http"), (b":authority", b"a"), (b":path", path), *more]


def _plain(conn):
    conn.send_headers(1, _head(), end_stream=True)


def _bodies(conn):
    conn.send_headers(
        1, _head(b"POST", b"/x?y=z", (b"content-length", b"5"), (b"cookie", b"a=b"), (b"cookie", b"c=d"))
    )
    conn.send_data(1, b"he")
    conn.send_data(1, b"llo", end_stream=True)


def _trailers(conn):
    conn.send_headers(1, _head(b"POST", b"/t", (b"te", b"trailers"), (b"trailer", b"x-sum")))
    conn.send_data(1, b"body")
    conn.send_headers(1, [(b"x-sum", b"1")], end_stream=True)


def _many(conn):
    for stream in range(1, 21, 2):
        conn.send_headers(stream, _head(b"POST", b"/%d" % stream, (b"x-n", b"%d" % stream)))
    for stream in range(1, 21, 2):
        conn.send_data(stream, b"x" * stream, end_stream=True)


def _padded(conn):
    conn.send_headers(
        1, _head(b"POST", b"/p"), priority_weight=16, priority_depends_on=0, priority_exclusive=False
    )
    conn.send_data(1, b"padded", pad_length=100, end_stream=True)
    conn.send_headers(3, _head(b"HEAD", b"/h"), end_stream=True)


def _control(conn):
    conn.ping(b"12345678")
    conn.update_settings({4: 100})
    conn.send_headers(1, _head(b"PUT", b"/c"))
    conn.increment_flow_control_window(1000)
    conn.increment_flow_control_window(1000, 1)
    conn.reset_stream(1)
    conn.send_headers(3, _head(b"GET", b"/after"), end_stream=True)


EXTRA = [
    PingFrame(0, b"x" * 8).serialize(), SettingsFrame(0, settings={4: 0}).serialize(), SettingsFrame(0, settings={1: 0}).serialize(),
    SettingsFrame(0, settings={5: 1 << 14}).serialize(), WindowUpdateFrame(0, (1 << 31) - 1).serialize(), WindowUpdateFrame(1, 1).serialize(),
    RstStreamFrame(1, 8).serialize(), RstStreamFrame(3, 8).serialize(), GoAwayFrame(0).serialize(), PriorityFrame(1, depends_on=3, stream_weight=5).serialize(),
    DataFrame(1, b"smuggled", flags=["END_STREAM"]).serialize(), DataFrame(3, b"", flags=["END_STREAM"]).serialize(), HeadersFrame(1, b"\x82", flags=["END_HEADERS", "END_STREAM"]).serialize(),
    HeadersFrame(5, b"\x82\x86\x84\x41\x01a", flags=["END_HEADERS", "END_STREAM"]).serialize(), ContinuationFrame(1, b"\x82", flags=["END_HEADERS"]).serialize(),
    b"\x00\x00\x05\xfe\x00\x00\x00\x00\x01extra", b"\x00\x00\x00\x00\x00\x00\x00\x00\x00",
]  # fmt: skip


def mutant(rng, sequences):
    """A sequence of the corpus with some frames, and some bytes in them, changed."""
    pieces = list(rng.choice(sequences))
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        at = rng.randrange(1, len(pieces))
        kind = rng.randrange(8)
        frame = bytearray(pieces[at])
        if kind == 0:
            pieces.insert(at, rng.choice(EXTRA))
        elif kind == 1:
            pieces.insert(rng.randrange(1, len(pieces) + 1), pieces[at])
        elif kind == 2 and len(pieces) > 2:
            del pieces[at]
        elif kind == 3:
            other = rng.randrange(1, len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif kind == 4 and len(frame) > 9:
            frame[rng.randrange(9, len(frame))] = rng.randrange(256)
            pieces[at] = bytes(frame)
        elif kind == 5 and len(frame) >= 9:
            # Type, flags or stream of the frame.
            where = rng.choice([3, 4, 4, 8, 8])
            frame[where] = rng.choice([0, 1, 2, 3, 4, 5, 8, 9, 0x20, 0x24, 255])
            pieces[at] = bytes(frame)
        elif kind == 6 and len(frame) > 9:
            body = frame[9 : rng.randrange(9, len(frame))]
            pieces[at] = len(body).to_bytes(3, "big") + bytes(frame[3:9]) + bytes(body)
        elif kind == 7 and len(frame) >= 9:
            frame[rng.randrange(3)] ^= 1 << rng.randrange(8)
            pieces[at] = bytes(frame)
    return b"".join(pieces)


async def fuzz(seconds, seed, sequences, most=1 << 60):
    """Fuzzes for a time, or for `most` mutants; returns counts.  Raises AssertionError with the bytes that broke a rule."""
    rng = random.Random(seed)
    counts = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end and counts["sequences"] < most:
        data = mutant(rng, sequences)
        try:
            messages, out, ended = await front(data, [])
            cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice([1, 3, 10])))
            again, out2, ended2 = await front(data, cuts)
            # Whether a connection is ended may depend on the time: a frame for a stream that is half closed is the stream's error, and
            # the connection's as soon as the answer has closed it (RFC 9113, section 5.1).
            short, long = sorted((messages, again), key=len)
            assert long[: len(short)] == short and (ended or ended2 or len(short) == len(long)), (
                cuts,
                short,
                long,
            )
            streams = compare(long, data)
            sound(out, streams)
            sound(out2, streams)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {data!r}: {error}") from error
        counts["sequences"] += 1
        counts["served"] += len(messages)
        counts["ended"] += ended
    return counts


if __name__ == "__main__":
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(dict(asyncio.run(fuzz(length, start, corpus()))))
