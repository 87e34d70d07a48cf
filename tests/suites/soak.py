"""Servers under clients that check each byte, for minutes: redis, nginx, node and threads of Python in one container.

    soak.py [--runtime krun|runc|PATH] [--minutes N] [--connections N]

The clients run natively, on the host's network. Each connection asks at random: small and large, whole and in pieces, one by one and in pipelines;
it reads at once or slowly, and ends with a close, a half close or a reset. The container is paused now and then. The answers are known in
advance. At the end: requests and bytes for each server, what was wrong, what the container's counters say, memory and descriptors
after a tenth of the time and at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.runtime import find
from suites import software

PACKAGES = {"redis-server", "redis-tools", "nginx-light", "nodejs", "python3"}
REDIS, NGINX, NODE, THREADS = 17391, 17392, 17393, 17394
FILES = [0, 1, 100, 1023, 1024, 4096, 16383, 16384, 16385, 40000, 65537, 300001]

SCRIPT = rf"""
cd /tmp; redis-server --port {REDIS} --save '' --appendonly no --daemonize yes >/dev/null
cat >n.conf <<'E'
worker_processes 2; pid /tmp/p; error_log /tmp/err; events {{ worker_connections 512; }}
http {{ access_log off; sendfile on; keepalive_requests 100000; server {{ listen 127.0.0.1:{NGINX}; root /tmp/files;
location /echo {{ proxy_pass http://127.0.0.1:{NODE}; proxy_http_version 1.1; client_max_body_size 1m; }} }} }}
E
chmod 755 /tmp /tmp/files; nginx -c /tmp/n.conf
cat >s.js <<'E'
require('http').createServer((q, r) => {{ const b = []; q.on('data', d => b.push(d)); q.on('end', () => r.end(Buffer.concat(b))) }}).listen({NODE}, '127.0.0.1')
E
(node s.js &)
cat >t.py <<'E'
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while data := self.request.recv(30000):
                self.request.sendall(data)
        except OSError:
            pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128
Server(("127.0.0.1", {THREADS}), Echo).serve_forever()
E
(python3 t.py &)
for p in {REDIS} {NGINX} {NODE} {THREADS}; do until (exec 3<>/dev/tcp/127.0.0.1/$p) 2>/dev/null; do sleep 0.1; done; done
"""


class Wrong(Exception):
    """An answer that is not the one that was due."""


class Connection:
    """A stream to one server; each call ends in bounded time."""

    def __init__(self, port: int, dice: random.Random) -> None:
        self.dice = dice
        self.sock = socket.create_connection(("127.0.0.1", port), 60)
        self.sock.settimeout(60)
        self.ahead = b""
        self.slow = dice.random() < 0.1

    def send(self, data: bytes) -> None:
        """All of it, at once or in pieces, from a thread of its own if it may not fit: the server may wait for us to read."""
        if self.dice.random() < 0.1 and len(data) > 1:
            cut = self.dice.randrange(1, len(data))
            self.sock.sendall(data[:cut])
            time.sleep(self.dice.random() / 500)
            data = data[cut:]
        self.sock.sendall(data)

    def more(self) -> None:
        if self.slow:
            time.sleep(self.dice.random() / 500)
        data = self.sock.recv(self.dice.choice((100, 5000, 1 << 18)))
        if not data:
            raise Wrong(f"end of file, {len(self.ahead)} bytes ahead")
        self.ahead += data

    def exactly(self, count: int) -> bytes:
        while len(self.ahead) < count:
            self.more()
        data, self.ahead = self.ahead[:count], self.ahead[count:]
        return data

    def line(self) -> bytes:
        while b"\r\n" not in self.ahead:
            self.more()
        line, _, self.ahead = self.ahead.partition(b"\r\n")
        return line

    def answer(self) -> bytes:
        """The body of one HTTP answer. Raises Wrong if it is no 200."""
        status = self.line()
        fields = {}
        while line := self.line():
            name, _, value = line.partition(b":")
            fields[name.lower()] = value.strip()
        if status.split()[1] not in (b"200", b"206"):
            raise Wrong(f"status {status!r}")
        if fields.get(b"transfer-encoding") != b"chunked":
            return self.exactly(int(fields[b"content-length"]))
        body = b""
        while size := int(self.line(), 16):
            body += self.exactly(size)
            self.exactly(2)
        self.exactly(2)
        return body

    def end(self) -> None:
        """Nothing may come unasked; then one of the ways in which clients go."""
        if self.ahead:
            raise Wrong(f"{len(self.ahead)} bytes too many: {self.ahead[:60]!r}")
        way = self.dice.randrange(4)
        if way == 0:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif way == 1:
            self.sock.shutdown(socket.SHUT_WR)
            if rest := self.sock.recv(100):
                raise Wrong(f"behind the last answer: {rest!r}")
        self.sock.close()


def noise(dice: random.Random, largest: int) -> bytes:
    return dice.randbytes(int(largest ** dice.random()) if dice.random() < 0.9 else 0)


def bulk(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def ask_redis(link: Connection, number: int) -> int:
    """A pipeline of SET, APPEND and GET on keys of this connection's own."""
    dice = link.dice
    values: dict[bytes, bytes] = {}
    asked, due = [], []
    for _ in range(dice.choice((1, 1, 1, 4, 16, 64))):
        key = b"k:%d:%d" % (number, dice.randrange(4))
        kind = dice.choice(("SET", "APPEND", "GET", "GET"))
        if kind == "SET" or key not in values:
            values[key] = noise(dice, 30000)
            asked.append(bulk(b"SET", key, values[key]))
            due.append(b"+OK\r\n")
        elif kind == "APPEND":
            data = noise(dice, 2000)
            values[key] += data
            asked.append(bulk(b"APPEND", key, data))
            due.append(b":%d\r\n" % len(values[key]))
        else:
            asked.append(bulk(b"GET", key))
            due.append(b"$%d\r\n%b\r\n" % (len(values[key]), values[key]))
    link.send(b"".join(asked))
    for answer in due:
        got = link.exactly(len(answer))
        if got != answer:
            raise Wrong(f"{got[:60]!r} for {answer[:60]!r}")
    return len(due)


def ask_nginx(link: Connection, _: int) -> int:
    """One to four files, whole or a part of one; or a body by nginx to node and back."""
    dice, due = link.dice, []
    text = b""
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        which = dice.randrange(len(FILES))
        text += b"GET /%d HTTP/1.1\r\nHost: x\r\n" % which
        content = CONTENT[which]
        if len(content) > 1 and dice.random() < 0.3:
            first = dice.randrange(len(content))
            last = dice.randrange(first, len(content))
            text += b"Range: bytes=%d-%d\r\n" % (first, last)
            content = content[first : last + 1]
        text += b"\r\n"
        due.append(content)
    if dice.random() < 0.2:
        text += echo(due, noise(dice, 100000))
    link.send(text)
    return verify(link, due)


def echo(due: list[bytes], body: bytes) -> bytes:
    due.append(body)
    return b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def verify(link: Connection, due: list[bytes]) -> int:
    for content in due:
        got = link.answer()
        if got != content:
            raise Wrong(f"{len(got)} bytes that differ from {len(content)}")
    return len(due)


def ask_node(link: Connection, _: int) -> int:
    due: list[bytes] = []
    link.send(b"".join(echo(due, noise(link.dice, 100000)) for _ in range(link.dice.choice((1, 1, 2)))))
    return verify(link, due)


def ask_threads(link: Connection, _: int) -> int:
    data = noise(link.dice, 50000) + b"."
    link.send(data)
    if link.exactly(len(data)) != data:
        raise Wrong("another echo")
    return 1


SERVERS: dict[str, tuple[int, Callable[[Connection, int], int]]] = {
    "redis": (REDIS, ask_redis),
    "nginx": (NGINX, ask_nginx),
    "node": (NODE, ask_node),
    "threads": (THREADS, ask_threads),
}
CONTENT = [random.Random(size).randbytes(size) for size in FILES]


@dataclasses.dataclass
class Tally:
    requests: int = 0
    connections: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)


class Soak:
    """What runs beside the container (software.run, `beside`)."""

    def __init__(self, runtime: str, seconds: float, connections: int, seed: int) -> None:
        self.runtime, self.seconds, self.connections, self.seed = runtime, seconds, connections, seed
        self.tallies = {name: Tally() for name in SERVERS}
        self.ended = threading.Event()
        self.looks: list[str] = []

    def __call__(self, rootfs: Path, server: subprocess.Popen[bytes]) -> str:
        """Loads the servers, and stops them."""
        try:
            while not (rootfs / "tmp" / "ready").exists() and server.poll() is None:
                time.sleep(0.1)
            for number, content in enumerate(CONTENT):
                (rootfs / "tmp" / "files" / str(number)).write_bytes(content)
            threads = [
                threading.Thread(target=self.client, args=(name, number))
                for number, name in enumerate(list(SERVERS) * self.connections)
            ]
            for thread in threads:
                thread.start()
            self.disturb(rootfs.parent / "state", server)
            self.ended.set()
            for thread in threads:
                thread.join()
        finally:
            (rootfs / "tmp" / "stop").touch()
        return "done"

    def client(self, name: str, number: int) -> None:
        dice = random.Random(self.seed * 1000 + number)
        port, ask = SERVERS[name]
        tally = self.tallies[name]
        while not self.ended.is_set() and len(tally.wrong) < 10:
            try:
                link = Connection(port, dice)
                tally.connections += 1
                for _ in range(dice.choice((1, 10, 300))):
                    tally.requests += ask(link, number)
                    if self.ended.is_set():
                        break
                link.end()
            except (Wrong, OSError, ValueError, KeyError, IndexError) as e:
                tally.wrong.append(f"connection {number}: {type(e).__name__}: {e}")

    def krun(self, state: Path, *argv: str) -> str:
        """One command of the runtime about its only container."""
        ids = [entry.name for entry in state.iterdir() if not entry.name.startswith(("@", "."))]
        if len(ids) != 1:
            return ""
        done = subprocess.run(
            [str(find(self.runtime)), "--root", str(state), *argv, ids[0]],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def disturb(self, state: Path, server: subprocess.Popen[bytes]) -> None:
        """Until the time is over: pauses, and two looks at what the container has."""
        dice = random.Random(self.seed)
        begin = time.monotonic()
        first = begin + self.seconds / 10
        while (now := time.monotonic()) < begin + self.seconds and server.poll() is None:
            if first and now > first:
                first = 0
                self.look(state)
            time.sleep(dice.random() * 4)
            if dice.random() < 0.3:
                self.krun(state, "pause")
                time.sleep(dice.random() / 5)
                self.krun(state, "resume")
        self.look(state)

    def look(self, state: Path) -> None:
        try:
            stats: dict[str, Any] = json.loads(self.krun(state, "events", "--stats"))["data"]
            pids = json.loads(self.krun(state, "ps", "--format", "json"))
        except (ValueError, KeyError):
            self.looks.append("the container has gone")
            return
        descriptors = 0
        for pid in pids:
            try:
                descriptors += len(list(Path(f"/proc/{pid}/fd").iterdir()))
            except OSError:
                continue
        usage = stats.get("memory", {}).get("usage", {}).get("usage", 0)
        self.looks.append(
            f"{usage >> 20} MiB, {len(pids)} processes, {descriptors} descriptors, calls {json.dumps(stats.get('krun', {}).get('calls'))}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runtime", default="krun")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--connections", type=int, default=5, help="to each server")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    # The root of the suite `software` if it is there: with more packages, and not made again for the next suite.
    root = software.make_root(
        software.all_packages(software.CASES) if (software.ROOTS / "software").exists() else PACKAGES
    )
    soak = Soak(args.runtime, args.minutes * 60, args.connections, args.seed)
    print(f"seed {args.seed}", flush=True)
    done = software.run(
        args.runtime, root, "mkdir -p /tmp/files\n" + SCRIPT, args.minutes * 60 + 120, beside=soak
    )
    bad = done.status != 0
    for name, tally in soak.tallies.items():
        print(
            f"{name:<8} {tally.requests:>9} requests {tally.connections:>6} connections {len(tally.wrong)} wrong"
        )
        bad = bad or bool(tally.wrong) or not tally.requests
        for text in tally.wrong:
            print(f"    {text}")
    print("\n".join(soak.looks))
    print(f"the container ended with {done.status}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
