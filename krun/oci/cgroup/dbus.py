"""D-Bus as far as systemd's manager needs it: values, messages, one connection (D-Bus specification, "Message Protocol").

docs/performance.md has the figures that decided against a library.
"""

import os
import time
from errno import ETIMEDOUT

from krun.errors import KrunError, SysError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BUS = "org.freedesktop.DBus"
SYSTEMD = "org.freedesktop.systemd1"
OBJECT = "/org/freedesktop/systemd1"
MANAGER = SYSTEMD + ".Manager"
_SYSTEM_SOCKET = "/run/dbus/system_bus_socket"
_WAIT_S = 30.0
#: Bytes of a message that is read; a larger one is nothing that systemd answers to us.
_LONGEST = 1 << 20

_ALIGN = {
    "y": 1,
    "b": 4,
    "n": 2,
    "q": 2,
    "i": 4,
    "u": 4,
    "h": 4,
    "x": 8,
    "t": 8,
    "d": 8,
    "s": 4,
    "o": 4,
    "g": 1,
}
_ALIGN |= {"a": 4, "(": 8, "{": 8, "v": 1}
_SIZE = {"y": 1, "b": 4, "n": 2, "q": 2, "i": 4, "u": 4, "h": 4, "x": 8, "t": 8}


class BusError(KrunError):
    """The other side answered with an error; `name` is D-Bus's name of it."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{text} ({name})")
        self.name = name


def split(signature: str) -> "list[str]":
    """Return the single complete types of a signature (D-Bus specification, "Type System")."""
    found = []
    index = 0
    while index < len(signature):
        end = _end(signature, index)
        found.append(signature[index:end])
        index = end
    return found


def _end(signature: str, index: int) -> int:
    char = signature[index]
    if char == "a":
        return _end(signature, index + 1)
    if char in "({":
        depth = 0
        while True:
            if signature[index] in "({":
                depth += 1
            elif signature[index] in ")}":
                depth -= 1
            index += 1
            if depth == 0:
                return index
    return index + 1


def marshal(signature: str, values: "Sequence[Any]", out: bytearray) -> None:
    """Append values of a signature in little-endian D-Bus form; a variant is a pair (signature, value)."""
    for kind, value in zip(split(signature), values, strict=True):
        _put(kind, value, out)


def _pad(out: bytearray, alignment: int) -> None:
    out.extend(bytes(-len(out) % alignment))


def _put(kind: str, value: "Any", out: bytearray) -> None:
    _pad(out, _ALIGN[kind[0]])
    if kind in _SIZE:
        try:
            out += int(value).to_bytes(_SIZE[kind], "little", signed=kind in "nix")
        except OverflowError:
            raise KrunError(f"marshal D-Bus type {kind}: {value} does not fit") from None
    elif kind in ("s", "o"):
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise KrunError(f"marshal D-Bus type {kind}: {value!r} is not UTF-8") from None
        out += len(data).to_bytes(4, "little") + data + b"\0"
    elif kind == "g":
        out += bytes((len(value),)) + value.encode() + b"\0"
    elif kind == "v":
        _put("g", value[0], out)
        _put(value[0], value[1], out)
    elif kind[0] == "(":
        marshal(kind[1:-1], value, out)
    elif kind[0] == "a":
        # The length does not count the padding before the first element.
        at = len(out)
        out += bytes(4)
        _pad(out, _ALIGN[kind[1]])
        start = len(out)
        for element in value:
            _put(kind[1:], element, out)
        out[at : at + 4] = (len(out) - start).to_bytes(4, "little")
    else:
        raise KrunError(f"marshal D-Bus type {kind}: not supported")


class Reader:
    """Reads values of a signature out of a message; offsets count from the start of header or body."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def values(self, signature: str) -> "list[Any]":
        return [self.one(kind) for kind in split(signature)]

    def _number(self, size: int, signed: bool = False) -> int:
        if self.at + size > len(self.data):
            raise KrunError("read D-Bus message: it ends early")
        value = int.from_bytes(self.data[self.at : self.at + size], "little", signed=signed)
        self.at += size
        return value

    def one(self, kind: str) -> "Any":
        self.at += -self.at % _ALIGN[kind[0]]
        if kind in _SIZE:
            value = self._number(_SIZE[kind], kind in "nix")
            return bool(value) if kind == "b" else value
        if kind == "d":
            return self._number(8)
        if kind in ("s", "o", "g"):
            size = self._number(1 if kind == "g" else 4)
            text = self.data[self.at : self.at + size].decode("utf-8", "replace")
            self.at += size + 1
            return text
        if kind == "v":
            return self.one(self.one("g"))
        if kind in ("()", "{}"):
            raise KrunError("read D-Bus message: an empty structure")
        if kind[0] in "({":
            return tuple(self.values(kind[1:-1]))
        size = self._number(4)
        self.at += -self.at % _ALIGN[kind[1]]
        end = self.at + size
        found = []
        while self.at < end:
            found.append(self.one(kind[1:]))
        return found


def _values(header: "dict[int, Any]", body: bytes) -> "list[Any]":
    """Returns the values of a message. Errors: KrunError for a body that is none of its signature."""
    try:
        return Reader(body).values(str(header.get(8, "")))
    except (LookupError, RecursionError):
        raise KrunError("read D-Bus message: its body is malformed") from None


class Connection:
    """A connection to the message bus that systemd serves: the system's, or the user's."""

    def __init__(self, user: bool) -> None:
        self._user = user
        self._serial = 0
        self._signals: list[tuple[str, list[Any]]] = []
        self._owner = ""
        self._data = bytearray()
        self._deadline = 0.0

    def __enter__(self) -> "Connection":
        import _socket

        address = _address(self._user)
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._socket.settimeout(_WAIT_S)
        self._deadline = time.monotonic() + _WAIT_S
        try:
            self._socket.connect(address)
            # "AUTH EXTERNAL" with the uid in hexadecimal digits of its decimal ones; the kernel vouches for
            # it.
            uid = str(os.geteuid()).encode().hex()
            self._socket.sendall(b"\0AUTH EXTERNAL " + uid.encode() + b"\r\n")
            answer = self._line()
            if not answer.startswith(b"OK "):
                raise KrunError(f"connect to systemd at {address}: authentication refused: {answer.decode()}")
            self._socket.sendall(b"BEGIN\r\n")
            self.call("/org/freedesktop/DBus", BUS, "Hello", "", (), BUS)
            # The bus vouches for the sender of each message, by its unique name.
            self._owner = str(
                self.call("/org/freedesktop/DBus", BUS, "GetNameOwner", "s", (SYSTEMD,), BUS)[0]
            )
        except OSError as error:
            self._socket.close()
            raise SysError(
                "connect to systemd over D-Bus at",
                address.lstrip("\0"),
                error.errno or 0,
                "is a message bus running? use the cgroupfs manager otherwise",
            ) from None
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _line(self) -> bytes:
        while b"\r\n" not in self._data:
            self._more("connect to")
        line, _, self._data = self._data.partition(b"\r\n")
        return bytes(line)

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._more("talk to")
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def _more(self, what: str) -> None:
        """Reads on, until the deadline whatever comes: anybody on the bus can send us signals without end."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(ETIMEDOUT, "timed out")
        self._socket.settimeout(left)
        part = self._socket.recv(65536)
        if not part:
            raise KrunError(f"{what} systemd over D-Bus: the bus hung up")
        self._data += part

    def call(
        self,
        path: str,
        interface: str,
        member: str,
        signature: str,
        values: "Sequence[Any]",
        destination: str = SYSTEMD,
    ) -> "list[Any]":
        """Call a method and return its values. Errors: BusError, KrunError when the bus goes, SysError on
        time-out.
        """
        body = bytearray()
        marshal(signature, values, body)
        self._serial += 1
        fields = [(1, ("o", path)), (2, ("s", interface)), (3, ("s", member)), (6, ("s", destination))]
        if signature:
            fields.append((8, ("g", signature)))
        message = bytearray(b"l\x01\x00\x01")
        marshal("uu", (len(body), self._serial), message)
        _put("a(yv)", fields, message)
        _pad(message, 8)
        self._deadline = time.monotonic() + _WAIT_S
        self._socket.settimeout(_WAIT_S)
        try:
            self._socket.sendall(bytes(message + body))
            while True:
                kind, header, body_of = self._receive()
                sender = BUS if destination == BUS else self._owner
                if kind in (2, 3) and header.get(5) == self._serial and header.get(7) == sender:
                    found = _values(header, body_of)
                    if kind == 3:
                        raise BusError(str(header.get(4, "")), str(found[0]) if found else "no text")
                    return found
                if kind == 4:
                    self._keep_signal(header, body_of)
        except TimeoutError:
            raise KrunError(f"call {member} of systemd: no answer within {_WAIT_S:g} s") from None
        except OSError as error:
            raise SysError(f"call {member} of systemd", "", error.errno or 0) from None

    def _keep_signal(self, header: "dict[int, Any]", body: bytes) -> None:
        """Keeps a signal of systemd's manager. Anybody on the bus can send us one of the same name."""
        if self._owner and (header.get(7), header.get(1), header.get(2)) == (self._owner, OBJECT, MANAGER):
            self._signals.append((str(header.get(3, "")), _values(header, body)))

    def _receive(self) -> "tuple[int, dict[int, Any], bytes]":
        """Returns the type of a message, its header fields, and its body, which only the caller can trust: it may be anybody's.

        The header is {} where it cannot be read: of another byte order than ours, which is this machine's and so the bus's and
        systemd's, or with values of another shape than the protocol's.
        """
        start = self._exactly(16)
        order: Any = "little" if start[:1] == b"l" else "big"
        body_size = int.from_bytes(start[4:8], order)
        fields_size = int.from_bytes(start[12:16], order)
        if body_size > 1 << 27 or fields_size > 1 << 26:
            raise KrunError("talk to systemd over D-Bus: a message beyond the protocol's limits")
        if body_size + fields_size > _LONGEST:
            left = fields_size + -fields_size % 8 + body_size
            while left:
                left -= len(self._exactly(min(left, 65536)))
            return 0, {}, b""
        rest = self._exactly(fields_size + -fields_size % 8 + body_size)
        reader = Reader(start + rest[:fields_size])
        reader.at = 12
        header: dict[int, Any] = {}
        if order == "little":
            try:
                header = dict(reader.one("a(yv)"))
            except (KrunError, LookupError, RecursionError):
                pass
        return start[1], header, rest[len(rest) - body_size :]

    def get(self, path: str, interface: str, name: str) -> "Any":
        """Return a property. Errors: as call."""
        return self.call(path, "org.freedesktop.DBus.Properties", "Get", "ss", (interface, name))[0]

    def job(self, member: str, signature: str, values: "Sequence[Any]") -> None:
        """Call a method that makes a job and wait for its end. Errors: as call, KrunError if the job did not
        succeed.
        """
        rule = f"type='signal',sender='{SYSTEMD}',interface='{MANAGER}',member='JobRemoved',path='{OBJECT}'"
        self.call("/org/freedesktop/DBus", BUS, "AddMatch", "s", (rule,), BUS)
        self.call(OBJECT, MANAGER, "Subscribe", "", ())
        job = self.call(OBJECT, MANAGER, member, signature, values)[0]
        self._deadline = time.monotonic() + _WAIT_S
        try:
            while True:
                while self._signals:
                    name, found = self._signals.pop(0)
                    if name == "JobRemoved" and len(found) == 4 and found[1] == job:
                        if found[3] != "done":
                            raise KrunError(f"systemd job {member} of unit {found[2]}: {found[3]}")
                        return
                kind, header, body = self._receive()
                if kind == 4:
                    self._keep_signal(header, body)
        except TimeoutError:
            raise KrunError(f"systemd job {member}: not done within {_WAIT_S:g} s") from None


def _address(user: bool) -> str:
    """Return the socket of the bus ("\\0..." = abstract). Errors: KrunError when the address is of another
    kind.
    """
    name = "DBUS_SESSION_BUS_ADDRESS" if user else "DBUS_SYSTEM_BUS_ADDRESS"
    text = os.environ.get(name)
    if not text:
        if not user:
            return _SYSTEM_SOCKET
        directory = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
        return directory + "/bus"
    for address in text.split(";"):
        transport, _, rest = address.partition(":")
        keys = dict(part.partition("=")[::2] for part in rest.split(","))
        if transport == "unix" and "path" in keys:
            return keys["path"]
        if transport == "unix" and "abstract" in keys:
            return "\0" + keys["abstract"]
    raise KrunError(f"connect to systemd over D-Bus: {name}={text} is no unix socket")
