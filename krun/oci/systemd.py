"""The systemd cgroup driver: a transient scope per container, asked for over D-Bus.

systemd owns the cgroup tree where it runs, and wants others to ask (systemd.io, CGROUP_DELEGATION; interface:
org.freedesktop.systemd1(5)). The dozen calls that are needed do not merit a D-Bus package: this file speaks
the wire protocol (D-Bus specification, "Message Protocol") itself.
"""

import os
import time

from krun import log
from krun.errors import KrunError, SysError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Property = tuple[str, tuple[str, Any]]  # name, (signature, value)

_BUS = "org.freedesktop.DBus"
_SYSTEMD = "org.freedesktop.systemd1"
_OBJECT = "/org/freedesktop/systemd1"
_MANAGER = _SYSTEMD + ".Manager"
_SYSTEM_SOCKET = "/run/dbus/system_bus_socket"
_WAIT_S = 30.0
_INFINITY = (1 << 64) - 1

_ALIGN = {"y": 1, "b": 4, "n": 2, "q": 2, "i": 4, "u": 4, "x": 8, "t": 8, "d": 8, "s": 4, "o": 4, "g": 1}
_ALIGN |= {"a": 4, "(": 8, "{": 8, "v": 1}
_SIZE = {"y": 1, "b": 4, "n": 2, "q": 2, "i": 4, "u": 4, "x": 8, "t": 8}


class BusError(KrunError):
    """The other side answered with an error; `name` is D-Bus's name of it."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{text} ({name})")
        self.name = name


# --- where
# ----------------------------------------------------------------------------------------------------------


def place(spec_cgroups_path: str, id: str, rootless: bool, v2: bool) -> "tuple[str, dict[str, str]]":
    """Return the unit's name and where its cgroups will be: {"": directory} for v2, else controller to
    directory.

    Arguments: spec_cgroups_path, "slice:prefix:name", "" = system.slice (user.slice without root), krun, the
    id.
    Errors: KrunError for another form, or when no systemd answers.
    """
    user = rootless and os.geteuid() != 0
    parts = spec_cgroups_path.split(":") if spec_cgroups_path else ["", "krun", id]
    if len(parts) != 3 or "/" in spec_cgroups_path or not parts[2]:
        raise KrunError(
            'expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, '
            f'got "{spec_cgroups_path}" instead'
        )
    parent, prefix, name = parts
    parent = parent or ("user.slice" if user else "system.slice")
    unit = name if name.endswith(".slice") else f"{prefix}-{name}.scope" if prefix else f"{name}.scope"
    base = ""
    if user:
        with _Connection(True) as bus:
            base = bus.get(_OBJECT, _MANAGER, "ControlGroup").rstrip("/")
    else:
        _require()
    if name.endswith(".slice"):
        inner = base + expand(name)
    else:
        inner = f"{base}{expand(parent)}/{unit}"
    if v2:
        return unit, {"": "/sys/fs/cgroup" + inner}
    from krun.oci import cgroup_v1

    return unit, cgroup_v1.place(inner)


def expand(unit: str) -> str:
    """Return the path of a slice: "a-b.slice" is "/a.slice/a-b.slice", "-.slice" is "" (systemd.slice(5)).

    Errors: KrunError for a name that is no slice.
    """
    stem = unit.removesuffix(".slice")
    if unit == "-.slice":
        return ""
    if stem == unit or not stem or "/" in stem or "" in stem.split("-"):
        raise KrunError(f"invalid slice name: {unit}")
    words = stem.split("-")
    return "".join("/" + "-".join(words[: count + 1]) + ".slice" for count in range(len(words)))


def _require() -> None:
    # sd_booted(3)
    if not os.path.isdir("/run/systemd/system"):
        raise KrunError(
            "use systemd cgroups: systemd is not running on this host (no /run/systemd/system); "
            "use the cgroupfs manager instead"
        )


# --- units
# ----------------------------------------------------------------------------------------------------------


def start_scope(
    unit: str,
    pid: int,
    resources: "dict[str, Any]",
    rootless: bool,
    path: str,
    v2: bool,
    asked: "Sequence[Property]" = (),
) -> None:
    """Start the transient unit with a process in it and wait until it stands.

    Arguments: path, the unit's cgroup directory: its parent names the slice; asked, properties of the caller's that go
    before ours. Errors: KrunError, SysError.
    """
    properties: list[Property] = [
        ("Description", ("s", f"krun container {unit}")),
        ("DefaultDependencies", ("b", False)),
        # The payload may make groups below: systemd keeps its hands off them.
        ("Delegate", ("b", True)),
        ("CPUAccounting", ("b", True)),
        ("MemoryAccounting", ("b", True)),
        ("TasksAccounting", ("b", True)),
        ("IOAccounting" if v2 else "BlockIOAccounting", ("b", True)),
        ("CollectMode", ("s", "inactive-or-failed")),
    ]
    if not unit.endswith(".slice"):
        parent = os.path.basename(os.path.dirname(path))
        properties.append(("Slice", ("s", parent if parent.endswith(".slice") else "-.slice")))
        properties.append(("PIDs", ("au", [pid])))
    properties += limits(resources, v2)
    names = [name for name, _ in asked]
    properties = [(name, value) for name, value in properties if name not in names] + list(asked)
    with _Connection(rootless and os.geteuid() != 0) as bus:
        arguments: tuple[Any, ...] = (unit, "replace", properties, [])
        try:
            bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", arguments)
        except BusError as error:
            if not error.name.endswith(".UnitExists"):
                raise KrunError(f"start systemd unit {unit}: {error.message}") from None
            # Left failed by a container of the same name.
            bus.call(_OBJECT, _MANAGER, "ResetFailedUnit", "s", (unit,))
            try:
                bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", arguments)
            except BusError as again:
                raise KrunError(f"start systemd unit {unit}: {again.message}") from None


def stop_unit(unit: str, rootless: bool) -> None:
    """Stop a unit and forget it; that it is gone already, or that nobody answers, is no error: the
    directories are removed by the caller in any case."""
    try:
        with _Connection(rootless and os.geteuid() != 0) as bus:
            try:
                bus.job("StopUnit", "ss", (unit, "replace"))
                bus.call(_OBJECT, _MANAGER, "ResetFailedUnit", "s", (unit,))
            except BusError as error:
                if not error.name.endswith(".NoSuchUnit"):
                    log.debug(f"stop systemd unit {unit}: {error.message}")
    except KrunError as error:
        log.debug(f"stop systemd unit {unit}: {error.message}")


def set_properties(unit: str, resources: "dict[str, Any]", v2: bool) -> None:
    """Tell systemd of new limits, or a reload would bring the old ones back. Errors: KrunError."""
    properties = limits(resources, v2)
    if not properties:
        return
    with _Connection(os.geteuid() != 0) as bus:
        try:
            bus.call(_OBJECT, _MANAGER, "SetUnitProperties", "sba(sv)", (unit, True, properties))
        except BusError as error:
            raise KrunError(f"set properties of systemd unit {unit}: {error.message}") from None


def limits(resources: "dict[str, Any]", v2: bool) -> "list[Property]":
    """Return linux.resources as unit properties (systemd.resource-control(5)), as far as systemd has words
    for them.
    """
    found: list[Property] = []

    def put(name: str, value: int) -> None:
        found.append((name, ("t", _INFINITY if value < 0 else value)))

    memory = resources.get("memory") or {}
    if memory.get("limit"):
        put("MemoryMax" if v2 else "MemoryLimit", memory["limit"])
    if v2:
        from krun.oci.cgroup_v2 import swap_max, weight

        if memory.get("reservation"):
            put("MemoryLow", memory["reservation"])
        swap = swap_max(memory.get("limit"), memory.get("swap"))
        if swap is not None:
            put("MemorySwapMax", -1 if swap == "max" else int(swap))
    cpu = resources.get("cpu") or {}
    if cpu.get("shares"):
        if v2:
            put("CPUWeight", weight(cpu["shares"]))
        else:
            put("CPUShares", cpu["shares"])
    quota, period = cpu.get("quota"), cpu.get("period")
    if quota:
        if quota < 0:
            put("CPUQuotaPerSecUSec", -1)
        else:
            put("CPUQuotaPerSecUSec", _per_second(quota, period or 100_000))
    if v2 and period:
        put("CPUQuotaPeriodUSec", period)
    if v2:
        for key, name in (("cpus", "AllowedCPUs"), ("mems", "AllowedMemoryNodes")):
            if cpu.get(key):
                found.append((name, ("ay", _bitmap(cpu[key]))))
    limit = (resources.get("pids") or {}).get("limit")
    if limit is not None:
        put("TasksMax", limit)
    block = resources.get("blockIO") or {}
    if block.get("weight"):
        if v2:
            put("IOWeight", 1 + (block["weight"] - 10) * 9999 // 990)
        else:
            put("BlockIOWeight", block["weight"])
    if v2:
        found += _unified(resources.get("unified") or {})
    return found


# Files of cgroup v2 that hold one number or "max", and the property of the same meaning.
_UNIFIED = {
    "cpu.weight": "CPUWeight",
    "io.weight": "IOWeight",
    "memory.high": "MemoryHigh",
    "memory.low": "MemoryLow",
    "memory.max": "MemoryMax",
    "memory.min": "MemoryMin",
    "memory.swap.max": "MemorySwapMax",
    "pids.max": "TasksMax",
}


def _unified(unified: "dict[str, str]") -> "list[Property]":
    """Return linux.resources.unified as properties, as far as systemd has words for it; the files get all of it.

    Errors: KrunError for a value that its file would not take either.
    """
    found: list[Property] = []
    for name, text in unified.items():
        text = str(text).strip()
        try:
            if name in _UNIFIED:
                number = text.removeprefix("default ") if name == "io.weight" else text
                found.append((_UNIFIED[name], ("t", _INFINITY if number == "max" else int(number))))
            elif name == "cpu.max":
                quota, _, period = text.partition(" ")
                micros = int(period or "100000")
                per_second = _INFINITY if quota == "max" else _per_second(int(quota), micros)
                found += [("CPUQuotaPerSecUSec", ("t", per_second)), ("CPUQuotaPeriodUSec", ("t", micros))]
            elif name in ("cpuset.cpus", "cpuset.mems"):
                word = "AllowedCPUs" if name == "cpuset.cpus" else "AllowedMemoryNodes"
                found.append((word, ("ay", _bitmap(text))))
        except (ValueError, ZeroDivisionError):
            raise KrunError(f"unified resource {name!r}: {text!r} is no value of this file") from None
    return found


def _per_second(quota: int, period: int) -> int:
    """Return a quota in microseconds a second; systemd rounds to 10 ms: up, or a small quota would become none."""
    return -(-(quota * 1_000_000 // period) // 10_000) * 10_000


def _bitmap(text: str) -> bytes:
    from krun.oci.cgroup_v1 import cpu_list

    bits = 0
    for number in cpu_list(text):
        bits |= 1 << number
    return bits.to_bytes(max(1, (bits.bit_length() + 7) // 8), "little")


# --- wire
# -----------------------------------------------------------------------------------------------------------


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
        out += int(value).to_bytes(_SIZE[kind], "little", signed=kind in "nix")
    elif kind in ("s", "o"):
        data = value.encode()
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


class _Reader:
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
        if kind[0] in "({":
            return tuple(self.values(kind[1:-1]))
        size = self._number(4)
        self.at += -self.at % _ALIGN[kind[1]]
        end = self.at + size
        found = []
        while self.at < end:
            found.append(self.one(kind[1:]))
        return found


class _Connection:
    """A connection to the message bus that systemd serves: the system's, or the user's."""

    def __init__(self, user: bool) -> None:
        self._user = user
        self._serial = 0
        self._signals: list[tuple[str, list[Any]]] = []
        self._data = b""

    def __enter__(self) -> "_Connection":
        import _socket

        address = _address(self._user)
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._socket.settimeout(_WAIT_S)
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
            self.call("/org/freedesktop/DBus", _BUS, "Hello", "", (), _BUS)
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
            part = self._socket.recv(4096)
            if not part:
                raise KrunError("connect to systemd over D-Bus: the bus hung up")
            self._data += part
        line, _, self._data = self._data.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            part = self._socket.recv(65536)
            if not part:
                raise KrunError("talk to systemd over D-Bus: the bus hung up")
            self._data += part
        data, self._data = self._data[:size], self._data[size:]
        return data

    def call(
        self,
        path: str,
        interface: str,
        member: str,
        signature: str,
        values: "Sequence[Any]",
        destination: str = _SYSTEMD,
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
        try:
            self._socket.sendall(bytes(message + body))
            while True:
                kind, header, found = self._receive()
                if kind in (2, 3) and header.get(5) == self._serial:
                    if kind == 3:
                        raise BusError(str(header.get(4, "")), str(found[0]) if found else "no text")
                    return found
                if kind == 4:
                    self._signals.append((str(header.get(3, "")), found))
        except TimeoutError:
            raise KrunError(f"call {member} of systemd: no answer within {_WAIT_S:g} s") from None
        except OSError as error:
            raise SysError(f"call {member} of systemd", "", error.errno or 0) from None

    def _receive(self) -> "tuple[int, dict[int, Any], list[Any]]":
        start = self._exactly(16)
        if start[:1] != b"l":
            raise KrunError("talk to systemd over D-Bus: a big-endian answer")
        body_size = int.from_bytes(start[4:8], "little")
        fields_size = int.from_bytes(start[12:16], "little")
        if body_size > 1 << 27 or fields_size > 1 << 26:
            raise KrunError("talk to systemd over D-Bus: a message beyond the protocol's limits")
        rest = self._exactly(fields_size + -fields_size % 8 + body_size)
        reader = _Reader(start + rest[:fields_size])
        reader.at = 12
        header = dict(reader.one("a(yv)"))
        body = _Reader(rest[len(rest) - body_size :])
        return start[1], header, body.values(str(header.get(8, "")))

    def get(self, path: str, interface: str, name: str) -> "Any":
        """Return a property. Errors: as call."""
        return self.call(path, "org.freedesktop.DBus.Properties", "Get", "ss", (interface, name))[0]

    def job(self, member: str, signature: str, values: "Sequence[Any]") -> None:
        """Call a method that makes a job and wait for its end. Errors: as call, KrunError if the job did not
        succeed.
        """
        rule = (
            f"type='signal',sender='{_SYSTEMD}',interface='{_MANAGER}',member='JobRemoved',path='{_OBJECT}'"
        )
        self.call("/org/freedesktop/DBus", _BUS, "AddMatch", "s", (rule,), _BUS)
        self.call(_OBJECT, _MANAGER, "Subscribe", "", ())
        job = self.call(_OBJECT, _MANAGER, member, signature, values)[0]
        deadline = time.monotonic() + _WAIT_S
        try:
            while True:
                while self._signals:
                    name, found = self._signals.pop(0)
                    if name == "JobRemoved" and len(found) == 4 and found[1] == job:
                        if found[3] != "done":
                            raise KrunError(f"systemd job {member} of unit {found[2]}: {found[3]}")
                        return
                if time.monotonic() > deadline:
                    raise TimeoutError
                kind, header, found = self._receive()
                if kind == 4:
                    self._signals.append((str(header.get(3, "")), found))
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
