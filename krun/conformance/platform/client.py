"""Requests to a platform that may hang, lie or send without an end: each has a deadline, and an answer has a bound.

The platform is what is checked, so nothing that it sends is taken for granted: `dig` reads objects of unknown shape. No
connection is used twice.
"""

import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from krun.conformance.facts import shown
from krun.conformance.platform.access import Access
from krun.errors import KrunError

_SECONDS = 30.0  # for one request, its answer's last byte included
_MOST = 4 << 20  # bytes of an answer


class Answer(NamedTuple):
    """Fields: status; (name, value) of the fields, names in small letters; body."""

    status: int
    fields: list[tuple[str, str]]
    body: bytes


def dig(value: Any, *path: Any) -> Any:
    """Return what lies at a path of keys and indexes, or None where the value has another shape."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


class _Received(io.BytesIO):
    """What http.client takes for a socket."""

    def makefile(self, mode: str) -> "_Received":
        return self


class Client:
    """Arguments: the API's access; ingress, host and port that requests to services go to, None: asked for from the platform."""

    def __init__(self, access: Access, ingress: tuple[str, int] | None = None) -> None:
        self.access = access
        self._ingress = ingress

    def ask(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> tuple[int, Any]:
        """Ask the API. Returns the status and the decoded body, None where it is no JSON. Raises KrunError."""
        fields = [("Accept", "application/json")]
        data = b""
        if body is not None:
            data = json.dumps(body).encode()
            fields.append(("Content-Type", media))
        host = f"{self.access.host}:{self.access.port}"
        answer = self._send(self._api(), host, method, path, [*fields, *self._token()], data)
        return answer.status, _decoded(answer.body)

    def text(self, path: str, seconds: float = _SECONDS, begun: Callable[[], None] = lambda: None) -> str:
        """Return a text of the API, as far as it came in the time (s): a log may be followed. `begun` is called when the answer
        begins. Raises KrunError.
        """
        host = f"{self.access.host}:{self.access.port}"
        answer = self._send(self._api(), host, "GET", path, self._token(), b"", seconds, begun)
        if answer.status != 200:
            raise KrunError(
                f"read {path}: status {answer.status}: {shown(answer.body[:200].decode('utf-8', 'replace'))}"
            )
        return answer.body.decode("utf-8", "replace")

    def request(
        self, host: str, path: str, fields: "list[tuple[str, str]] | None" = None, seconds: float = _SECONDS
    ) -> Answer:
        """Send a GET to a service by the ingress. Raises KrunError where no whole answer came in the time (s)."""
        return self._send(self._connected(self.ingress()), host, "GET", path, fields or [], b"", seconds)

    def ingress(self) -> tuple[str, int]:
        """Return the address of the ingress: where Knative's own test clients look for it (knative.dev/pkg test/ingress)."""
        if self._ingress is None:
            path = "/api/v1/namespaces/istio-system/services/istio-ingressgateway"
            code, value = self.ask("GET", path)
            ports = [one for one in dig(value, "spec", "ports") or [] if dig(one, "port") == 80]
            number = dig(ports, 0, "nodePort")
            if code != 200 or not isinstance(number, int) or not 0 < number < 65536:
                raise KrunError(
                    f"find the ingress: {path} names no nodePort of port 80; give --ingress HOST:PORT"
                )
            self._ingress = (self.access.host, number)
        return self._ingress

    def _token(self) -> list[tuple[str, str]]:
        """The credential, for the API only: a service's URL is what the platform says, and may name the API's host."""
        return [("Authorization", f"Bearer {self.access.token}")] if self.access.token else []

    def _api(self) -> socket.socket:
        sock = self._connected((self.access.host, self.access.port))
        if self.access.tls is None:
            return sock
        try:
            return self.access.tls.wrap_socket(sock, server_hostname=self.access.host)
        except (OSError, ssl.SSLError) as error:
            sock.close()
            raise KrunError(f"talk TLS with the API {self.access.host}:{self.access.port}: {error}") from None

    def _connected(self, address: tuple[str, int]) -> socket.socket:
        try:
            return socket.create_connection(address, timeout=_SECONDS)
        except OSError as error:
            raise KrunError(f"connect to {address[0]}:{address[1]}: {error.strerror or error}") from None

    def _send(
        self,
        sock: socket.socket,
        host: str,
        method: str,
        path: str,
        fields: list[tuple[str, str]],
        data: bytes,
        seconds: float = _SECONDS,
        begun: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request. With `begun` an answer that has no end in the time (s) is taken as far as it came."""
        partial = begun is not None
        if not all("!" <= char <= "~" for char in host + path):
            sock.close()
            raise KrunError(
                f"{method} {shown(path)} of {shown(host)}: the platform's name for it is malformed"
            )
        what = f"{method} {path} of {host}"
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in fields]
        if data:
            lines.append(f"Content-Length: {len(data)}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        with sock:
            try:
                sock.settimeout(seconds)
                sock.sendall(head + data)
                received = _receive(sock, time.monotonic() + seconds, what, begun)
            except OSError as error:
                raise KrunError(f"{what}: {error.strerror or error}") from None
        return _parsed(received, what, partial)


def _receive(sock: socket.socket, end: float, what: str, begun: Callable[[], None] | None) -> bytes:
    """Read until the answer's end as its framing tells, the connection's end, or the time `end`. Raises KrunError, OSError."""
    received = bytearray()
    while not _complete(received):
        left = end - time.monotonic()
        if left <= 0:
            if begun:
                break
            raise KrunError(f"{what}: no whole answer in the time given; {len(received)} bytes came")
        if len(received) > _MOST:
            raise KrunError(f"{what}: an answer of more than {_MOST} bytes")
        sock.settimeout(left)
        try:
            data = sock.recv(65536)
        except TimeoutError:
            continue
        if not data:
            break
        if begun and not received:
            begun()
        received += data
    return bytes(received)


def _complete(received: bytearray) -> bool:
    """Whether a platform that does not close the connection has sent all: by Content-Length, or by the last chunk."""
    at = received.find(b"\r\n\r\n")
    if at < 0:
        return False
    head = bytes(received[:at]).lower()
    if b"\r\ntransfer-encoding:" in head:
        return received.endswith(b"\r\n0\r\n\r\n")
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit() and len(value) < 20:
            return len(received) >= at + 4 + int(value)
    return False


def _parsed(received: bytes, what: str, partial: bool) -> Answer:
    if b"\r\n\r\n" not in received:
        raise KrunError(f"{what}: the connection ended without an answer; {len(received)} bytes came")
    parser = http.client.HTTPResponse(_Received(received), method="GET")  # type: ignore[arg-type]
    try:
        parser.begin()
        try:
            body = parser.read()
        except http.client.IncompleteRead as error:
            if not partial:
                raise
            body = error.partial
    except (http.client.HTTPException, ValueError, OSError) as error:
        raise KrunError(
            f"{what}: the answer is not HTTP/1.1: {type(error).__name__}: {shown(str(error))}"
        ) from None
    return Answer(parser.status, [(name.lower(), value) for name, value in parser.getheaders()], body)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
